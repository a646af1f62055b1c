"""All mutants, by the part of the product that they change."""

from __future__ import annotations

from tests.mutants import (
    backup,
    clouds,
    engine,
    hive,
    iceberg,
    maintenance,
    overwrite,
    repository,
    restore,
    seed003,
    services,
    stress,
)
from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *iceberg.MUTANTS,
    *repository.MUTANTS,
    *backup.MUTANTS,
    *engine.MUTANTS,
    *restore.MUTANTS,
    *overwrite.MUTANTS,
    *maintenance.MUTANTS,
    *services.MUTANTS,
    *clouds.MUTANTS,
    *hive.MUTANTS,
    *stress.MUTANTS,
    *seed003.MUTANTS,
)
