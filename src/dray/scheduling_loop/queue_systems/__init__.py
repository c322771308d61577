"""Queue systems around the scheduler: which kinds of objects each has, and what is written about its objects.

`systems` lists them. `queue_system` says what there is to tell about one; its module declares that as `SYSTEM`.
"""
