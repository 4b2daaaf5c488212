"""A small multi-agent application and a scripted model for it, so that recording can be tried offline.

Nothing in ``app`` knows Counterfoil: it is written as any LangGraph application is, and stays as it is when
recorded. ``endpoint`` is an OpenAI-compatible server on 127.0.0.1, ``script`` is what its model says.
``python -m counterfoil_langchain.demo.app`` needs the extra ``counterfoil-langchain[demo]``; the other two
modules need the standard library only.
"""
