from .mutant import Mutant

MUTANTS: tuple[Mutant, ...] = ()
