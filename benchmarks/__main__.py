"""Every benchmark, one after another; `python -m benchmarks.decode --help` and so on take sizes."""

from benchmarks import decode, estimator, placement, snapshot


def main() -> None:
    for benchmark in (snapshot, placement, estimator, decode):
        benchmark.main([])


if __name__ == "__main__":
    main()
