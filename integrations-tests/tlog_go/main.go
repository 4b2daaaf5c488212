// Reads an exported log with Go's own transparency log packages, which know nothing of Counterfoil.
//
// Usage: tlog_go FOLDER VKEY [OLD_CHECKPOINT...]
//
// It opens the checkpoint with the verifier key, computes the tree hash from the tiles, proves every record of the
// entry bundles and every earlier size, and prints what it proved. Any failure ends it with a message and exit code 1.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const height = 8

type folder string

func (f folder) Height() int { return height }

func (f folder) SaveTiles(tiles []tlog.Tile, data [][]byte) {}

func (f folder) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	found := make([][]byte, len(tiles))
	for i, tile := range tiles {
		// Go's path names the height, which C2SP leaves out.
		path := strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/", height), "tile/", 1)
		data, err := os.ReadFile(filepath.Join(string(f), path))
		if err != nil {
			return nil, err
		}
		found[i] = data
	}
	return found, nil
}

func (f folder) entries(size int64) ([][]byte, error) {
	var found [][]byte
	for number := int64(0); number*256 < size; number++ {
		width := int(size - number*256)
		if width > 256 {
			width = 256
		}
		tile := tlog.Tile{H: height, L: 0, N: number, W: width}
		path := strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/0/", height), "tile/entries/", 1)
		data, err := os.ReadFile(filepath.Join(string(f), path))
		if err != nil {
			return nil, err
		}
		for i := 0; i < width; i++ {
			if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
				return nil, fmt.Errorf("bundle %d ends in entry %d", number, i)
			}
			end := 2 + int(binary.BigEndian.Uint16(data))
			found = append(found, data[2:end])
			data = data[end:]
		}
		if len(data) != 0 {
			return nil, fmt.Errorf("bundle %d has bytes behind its entries", number)
		}
	}
	return found, nil
}

func open(path string, vkey string) (tlog.Tree, error) {
	var tree tlog.Tree
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return tree, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return tree, err
	}
	opened, err := note.Open(text, note.VerifierList(verifier))
	if err != nil {
		return tree, err
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[0] != verifier.Name() {
		return tree, fmt.Errorf("no checkpoint of %s", verifier.Name())
	}
	if tree.N, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return tree, err
	}
	hash, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(hash) != tlog.HashSize {
		return tree, fmt.Errorf("no root hash")
	}
	copy(tree.Hash[:], hash)
	return tree, nil
}

func run(arguments []string) error {
	place, vkey := folder(arguments[0]), arguments[1]
	tree, err := open(filepath.Join(string(place), "checkpoint"), vkey)
	if err != nil {
		return err
	}
	reader := tlog.TileHashReader(tree, place)
	root, err := tlog.TreeHash(tree.N, reader)
	if err != nil {
		return err
	}
	if root != tree.Hash {
		return fmt.Errorf("the tiles give another root")
	}
	entries, err := place.entries(tree.N)
	if err != nil {
		return err
	}
	for i, entry := range entries {
		proof, err := tlog.ProveRecord(tree.N, int64(i), reader)
		if err != nil {
			return err
		}
		if err := tlog.CheckRecord(proof, tree.N, tree.Hash, int64(i), tlog.RecordHash(entry)); err != nil {
			return fmt.Errorf("record %d: %v", i, err)
		}
		if !bytes.HasPrefix(entry, []byte(`{"body":`)) {
			return fmt.Errorf("record %d is no entry", i)
		}
	}
	proved := 0
	for size := int64(1); size <= tree.N; size++ {
		if err := prove(tree, size, nil, reader); err != nil {
			return fmt.Errorf("tree of %d: %v", size, err)
		}
		proved++
	}
	for _, path := range arguments[2:] {
		old, err := open(path, vkey)
		if err != nil {
			return err
		}
		if err := prove(tree, old.N, &old.Hash, reader); err != nil {
			return fmt.Errorf("%s: %v", path, err)
		}
	}
	fmt.Printf("%d records, %d earlier sizes, %d earlier checkpoints\n", len(entries), proved, len(arguments)-2)
	return nil
}

func prove(tree tlog.Tree, size int64, hash *tlog.Hash, reader tlog.HashReader) error {
	if hash == nil {
		computed, err := tlog.TreeHash(size, reader)
		if err != nil {
			return err
		}
		hash = &computed
	}
	proof, err := tlog.ProveTree(tree.N, size, reader)
	if err != nil {
		return err
	}
	return tlog.CheckTree(proof, tree.N, tree.Hash, size, *hash)
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: tlog_go FOLDER VKEY [OLD_CHECKPOINT...]")
		os.Exit(2)
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
