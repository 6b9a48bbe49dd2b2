from ._shards import offsets as offsets
