"""The look of the page: system fonts, light and dark, lanes as lines, and the page on paper. No colour says anything
that words do not say."""

from __future__ import annotations

from typing import Final

__all__ = ["CSS"]

CSS: Final = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --soft: #f2f2f0; --line: #8a8a86;
  --link: #0b4a8f; --good: #1f6b2d; --bad: #a11212; --open: #7a4a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --paper: #161616; --soft: #242424; --line: #8f8f8f;
  --link: #9cc7ff; --good: #8fd19e; --bad: #ff9a9a; --open: #ffc876; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.3rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1.1rem; margin: 1.6rem 0 .5rem; } h4 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
h1, h2, h3, h4, dd, p, li { overflow-wrap: anywhere; } td, th { overflow-wrap: break-word; max-width: 40rem; }
a { color: var(--link); } a:focus-visible, .wide:focus-visible, pre:focus-visible { outline: 3px solid var(--link); }
:target { background: var(--soft); outline: 2px solid var(--link); }
code, pre { font: .875rem/1.45 ui-monospace, monospace; } .d { overflow-wrap: anywhere; font-size: .75rem; }
td .d { display: block; min-width: 17rem; }
pre { margin: .2rem 0 .6rem; padding: .5rem .7rem; background: var(--soft); border-left: 3px solid var(--line);
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 22rem; overflow: auto; }
.verdict { border: 3px solid; padding: .7rem 1rem; margin: 1rem 0; } 
.verdict h2 { margin: 0; } .verdict p { margin: .5rem 0; }

.intact { border-color: var(--good); } .broken { border-style: double; border-width: 6px; border-color: var(--bad); }
.incomplete, .cannot-tell { border-style: dashed; border-color: var(--open); }
.wide { overflow-x: auto; } table { border-collapse: collapse; margin: .5rem 0 1rem; min-width: 40%; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--ink); } tbody th { font-weight: 400; white-space: nowrap; }
.lanes td, .lanes tbody th { border-bottom: 0; }
.lanes td.lane { text-align: center; padding: 0 .4rem; min-width: 2.5rem;
  background: linear-gradient(var(--line), var(--line)) center / 2px 100% no-repeat; }
.lanes td.lane b { background: var(--paper); }
dl { margin: .3rem 0; } dl div { display: flex; gap: .8rem; } dt { flex: 0 0 8rem; } dd { margin: 0; min-width: 0; }
.note { border-left: 3px solid var(--line); padding-left: .7rem; } .small { font-size: .875rem; }
@media print { @page { margin: 15mm; } body { max-width: none; padding: 0; font-size: 10pt; }
  :root { color-scheme: light; --ink: #000000; --paper: #ffffff; --soft: #ffffff; --line: #666666; --link: #000000;
    --good: #000000; --bad: #000000; --open: #000000; }
  nav { display: none; } pre { max-height: none; overflow: visible; } .wide { overflow: visible; }
  table { font-size: 8pt; } td, th { padding: .15rem .35rem; max-width: 14rem; }
  td .d { min-width: 9rem; } code, pre, .d { font-size: 7pt; }
  thead { display: table-header-group; } tr, h4, .verdict { break-inside: avoid; }
  h1, h2, h3, h4, caption { break-after: avoid; } .lanes td.lane { print-color-adjust: exact; } }
"""
