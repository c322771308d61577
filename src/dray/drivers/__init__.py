"""DRA drivers that come with dray, one package each, built on `dray.driver`."""
