"""An image on one GPU: its kernels, and launches packed for the addresses that they were called with before."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, byref, c_void_p
from typing import Any

from legalsat.runtime.driver import (
    CLUSTER,
    COOPERATIVE,
    DEPENDENT,
    MAP_BYTES,
    SCHEDULING,
    Device,
    launch_config,
    map_arguments,
)
from legalsat.runtime.program import (
    AddressArgument,
    Argument,
    Image,
    MapArgument,
    MapsArgument,
    NumberArgument,
    Recipe,
)

MOST_PACKED = 512  # sets of addresses; the memory of each is about a kilobyte
_SPREAD = 1  # CU_CLUSTER_SCHEDULING_POLICY_SPREAD
_C_TYPES: dict[str, Any] = {
    "u8": ctypes.c_uint8,
    "i8": ctypes.c_int8,
    "u16": ctypes.c_uint16,
    "i16": ctypes.c_int16,
    "u32": ctypes.c_uint32,
    "i32": ctypes.c_int32,
    "u64": ctypes.c_uint64,
    "i64": ctypes.c_int64,
    "fp32": ctypes.c_float,
    "fp64": ctypes.c_double,
}


class Loaded:
    """An image in a GPU's context.

    A launch is packed once for its addresses and stream: the configuration, the parameters, the encoded tensor maps.
    Packed launches are never changed, so any number of threads may use one at once.
    """

    def __init__(self, device: Device, image: Image, architecture: str) -> None:
        """Load the image, and opt into the shared memory that its kernels need.

        Raises:
            LegalSatError: the image is for another GPU, or the driver refuses it.
        """
        device.require(architecture)
        self.device, self._image = device, image
        module = device.load(image.code)
        self._functions = [
            device.function(module, recipe.entry, shared=recipe.shared, cluster=_blocks(recipe))
            for recipe in image.recipes
        ]
        self._packed: dict[tuple[int, ...], tuple[Any, ...]] = {}

    def again(self, image: Image) -> Loaded:
        """Return the same code, launched by the recipes of another image of it, whose blocks take as much memory."""
        found = object.__new__(Loaded)
        found.device, found._image, found._functions, found._packed = self.device, image, self._functions, {}
        return found

    def launch(self, names: tuple[str, ...], key: tuple[int, ...]) -> None:
        """Launch all kernels.

        Args:
            names: of operands and workspaces.
            key: their addresses, and the stream.

        Raises:
            DriverError: the driver refuses a map or a launch.
        """
        packed = self._packed.get(key)
        if packed is None:
            packed = self._pack(dict(zip(names, key, strict=False)), key[-1])
            if len(self._packed) >= MOST_PACKED:
                self._packed.clear()
            self._packed[key] = packed
        driver, context = self.device.driver, c_void_p()
        if driver.current(byref(context)) or context.value != self.device.context:
            with self.device.entered():
                self._launch(packed)
        else:
            self._launch(packed)

    def _launch(self, packed: tuple[Any, ...]) -> None:
        launch = self.device.driver.launch
        for arguments, _ in packed:
            if code := launch(*arguments):
                self.device.driver.check("cuLaunchKernelEx", code)

    def _pack(self, addresses: Mapping[str, int], stream: int) -> tuple[Any, ...]:
        """Return the arguments of cuLaunchKernelEx for each kernel, and the memory that they point to."""
        packed = []
        for recipe, function in zip(self._image.recipes, self._functions, strict=True):
            config = launch_config(recipe.grid, (recipe.threads,), recipe.shared, stream, attributes_of(recipe))
            values = [self._value(argument, addresses) for argument in recipe.arguments]
            pointers = (c_void_p * max(len(values), 1))(*(ctypes.addressof(value) for value in values))
            # byref() and cast() keep what they are made from, but not what `pointers` points to.
            arguments = byref(config), function, ctypes.cast(pointers, POINTER(c_void_p)), None
            packed.append((arguments, values))
        return tuple(packed)

    def _value(self, argument: Argument, addresses: Mapping[str, int]) -> Any:
        """Return an argument as C has it."""
        if isinstance(argument, NumberArgument):
            return _C_TYPES[argument.type](argument.value)
        if isinstance(argument, MapsArgument):
            data = b"".join(bytes(self._value(one, addresses)) for one in argument.maps)
            return ctypes.create_string_buffer(data, len(data))
        address = addresses[argument.operand] + argument.offset
        if isinstance(argument, AddressArgument):
            return ctypes.c_uint64(address)
        return ctypes.create_string_buffer(encoded(self.device, argument, address), MAP_BYTES)


def encoded(device: Device, argument: MapArgument, address: int) -> bytes:
    """Return a tensor map for an address, without the bit that older drivers may set amiss."""
    from legalsat.backends.host.maps import (  # noqa: PLC0415 - backends import plans, and programs come before these
        LAST_QUIRKY_DRIVER,
        QUIRK_BIT,
        SMALL_SPAN,
        span_bytes,
    )

    words = (ctypes.c_uint64 * (MAP_BYTES // 8)).from_buffer_copy(device.encode(map_arguments(argument.map), address))
    if span_bytes(argument.map) < SMALL_SPAN and device.driver.version <= LAST_QUIRKY_DRIVER:
        words[1] &= ~(1 << QUIRK_BIT)
    return bytes(words)


def attributes_of(recipe: Recipe) -> dict[int, tuple[int, ...]]:
    """Return what else the driver is told of a launch, as words by the attribute's id."""
    found: dict[int, tuple[int, ...]] = {}
    if recipe.dependent:
        found[DEPENDENT] = (1,)
    if recipe.cooperative:
        found[COOPERATIVE] = (1,)
    if _blocks(recipe) > 1:
        found[CLUSTER] = recipe.cluster
        found[SCHEDULING] = (_SPREAD,)
    return found


def _blocks(recipe: Recipe) -> int:
    x, y, z = recipe.cluster
    return x * y * z
