"""List prices of Compute Engine in us-central1, in US dollars. They apply if the operator gives no price list.

Google's price catalogue as of 2026-07-30: the unit prices of families were computed from the listed prices of all their
types, which they give back to the cent; where a family sells one ratio of memory to CPU only, the split between the two
is the one published before. Spot prices change every month. Prices elsewhere are higher, by much the same factor for
every type, which is what choosing between groups depends on.
"""

import msgspec

HOURS_PER_MONTH = 24.0 * 30


class UnitPrices(msgspec.Struct, frozen=True):
    """Prices of one vCPU and of one GiB of memory for an hour."""

    cpu: float
    memory: float
    spot_cpu: float
    spot_memory: float


FAMILIES = {
    "c2": UnitPrices(0.03398, 0.0045555, 0.016237, 0.002171),
    "c2d": UnitPrices(0.029563, 0.003959, 0.00993, 0.00133),
    "c3": UnitPrices(0.03465, 0.003938, 0.00849, 0.000965),
    "c3d": UnitPrices(0.029563, 0.003959, 0.00659, 0.000882),
    "c4": UnitPrices(0.03465, 0.003938, 0.02079, 0.002363),
    "c4a": UnitPrices(0.03086, 0.00351, 0.01334, 0.001517),
    "c4d": UnitPrices(0.032704, 0.003753, 0.01148, 0.001317),
    "c4n": UnitPrices(0.05544, 0.006301, 0.022176, 0.00252),
    "e2": UnitPrices(0.021812, 0.002924, 0.01309, 0.001754),
    "m1": UnitPrices(0.0348, 0.0051, 0.00609, 0.000893),
    "m3": UnitPrices(0.0348, 0.0051, 0.02015, 0.002953),
    "n1": UnitPrices(0.031611, 0.004237, 0.01115, 0.001494),
    "n2": UnitPrices(0.031611, 0.004237, 0.01499, 0.00201),
    "n2d": UnitPrices(0.027502, 0.003686, 0.00796, 0.001067),
    "n4": UnitPrices(0.03119, 0.00354, 0.0154, 0.001748),
    "n4a": UnitPrices(0.02646, 0.00301, 0.01111, 0.001264),
    "n4d": UnitPrices(0.02911, 0.00331, 0.01412, 0.001606),
    "t2a": UnitPrices(0.0385, 0.0, 0.016392, 0.0),
    "t2d": UnitPrices(0.027502, 0.003686, 0.010264, 0.001375),
}
UNKNOWN_FAMILY = FAMILIES["n1"]
CUSTOM_FACTOR = 1.05
"""Price factor of types with a chosen number of CPUs."""

TYPES: dict[str, tuple[float, float]] = {
    "a2-highgpu-1g": (3.673385, 1.92802),
    "a2-highgpu-2g": (7.34677, 3.85604),
    "a2-highgpu-4g": (14.69354, 7.71208),
    "a2-highgpu-8g": (29.38708, 15.42416),
    "a2-megagpu-16g": (55.739504, 29.25568),
    "a2-ultragpu-1g": (5.068798, 2.759546),
    "a2-ultragpu-2g": (10.137596, 5.519093),
    "a2-ultragpu-4g": (20.275192, 11.038185),
    "a2-ultragpu-8g": (40.550383, 22.076370),
    "a3-highgpu-1g": (11.061250, 6.326193),
    "a3-highgpu-2g": (22.122500, 12.652385),
    "a3-highgpu-4g": (44.245000, 25.304770),
    "a3-highgpu-8g": (88.490000, 50.609541),
    # A quarter and half a CPU are sold, two are allocatable: at their own price they would always be chosen, and be
    # overloaded. So they count as dearer than the type that delivers a whole one.
    "e2-micro": (0.033507, 0.020108),
    "e2-small": (0.033506, 0.020107),
    "e2-medium": (0.033505, 0.020106),
    "f1-micro": (0.0076, 0.000684),
    "g1-small": (0.0257, 0.002313),
    "g2-standard-4": (0.706832, 0.397336),
    "g2-standard-8": (0.853624, 0.479872),
    "g2-standard-12": (1.000416, 0.562408),
    "g2-standard-16": (1.147208, 0.644944),
    "g2-standard-24": (2.000833, 1.124816),
    "g2-standard-32": (1.734376, 0.975088),
    "g2-standard-48": (4.001665, 2.249632),
    "g2-standard-96": (8.003330, 4.499264),
    "h3-standard-88": (4.9236, 2.68664),
}
"""Prices per hour, on demand and as spot, of types that do not cost the sum of their CPUs and memory; with GPUs."""

GPUS = {"nvidia-tesla-p100": 1.46, "nvidia-tesla-p4": 0.60, "nvidia-tesla-t4": 0.35, "nvidia-tesla-v100": 2.48}
"""Price per hour of a GPU that is attached to a machine."""
UNKNOWN_GPU = 0.70

DISKS = {"pd-standard": 0.04, "pd-balanced": 0.10, "pd-ssd": 0.17}
"""Price of one GiB for a month."""
USUAL_DISK = "pd-balanced"
USUAL_DISK_GIB = 100.0
LOCAL_SSD = 0.08
SPOT_LOCAL_SSD = 0.0428
