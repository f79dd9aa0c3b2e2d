NETWORKS: tuple[str, ...] = ()
