// Descriptors 0, 1 and 2. If a program starts with its standard input, output or error closed, the next opened file takes that
// number, and anything printed goes into it.
#pragma once

namespace weft {

/// Takes over a descriptor that was just opened. Returns it, or, if it is below 3, a duplicate of 3 or above (closed on exec).
/// Passes -1 of a failed call through, and returns -1 with errno if no descriptor is left. The library opens every file it
/// writes through this, because the standard descriptors belong to the program.
int above_standard(int fd);

/// Opens /dev/null for each of 0, 1 and 2 that is closed. Call it at program start: not every library is as careful, and
/// LibTorch's sockets would take these numbers too.
void open_standard_descriptors();

}  // namespace weft
