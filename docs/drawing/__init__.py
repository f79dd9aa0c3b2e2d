"""Pictures of the site, drawn when it is built: a reader needs no script and no network for them."""
