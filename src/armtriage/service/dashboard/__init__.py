"""The dashboard: what a policy knows, what it can have cost and whether all is well, as one page in a browser.

`look` and `summary` say what is known of any policy, `items` a page of its arms; `site` serves them beside a service's
decisions, `saved` for a policy in a file. The page itself is in ``static``.
"""
