"""The web page: devices, queues and reasons in a browser, updated live.

`Page` (page.py) is an ASGI application for everything under `/ui`. `dray up` mounts it in its API server, `dray ui`
serves it alone on loopback; both are composed in `dray.cli`. It knows a cluster through `dray.client` alone.

A **view** is one Python module in `views` and one JavaScript module in `static/views`:

- The Python module makes a `View` (view.py): a name, the kinds that it reads, a function `derive(question)` from the
  objects that the viewer may see to a JSON document, and calls that the page sends. It is listed in `views/__init__`.
- The JavaScript module exports `view`: name, title, hint and a Preact component. It is listed in `static/views.js`.

The document of a view is sent once, and then as JSON merge patches (RFC 7396) at most four times a second; so it has
no null values, and what changes alone should be a member of an object, not an element of an array. A view with much
data has a `source` of its own (feeds.py), as the cluster view does.

`Question.objects(kind)` holds exactly the objects that the viewer may list; `Rights` (rights.py) asks the API server
with access reviews and remembers the answers for a while. Calls act through `Question.client`, which has the rights of
the viewer. Functions that live in `dray.cli` (explain, plan, lint) reach views through `Services` (services.py).

docs/page.md has the security rules and the contract of the JavaScript side.
"""
