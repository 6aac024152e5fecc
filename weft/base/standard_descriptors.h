// Descriptors 0, 1 and 2. Where a program was started with its standard input, output or error closed, the next file that is
// opened takes that number, and what anybody prints goes into it.
#pragma once

namespace weft {

/// Takes over a descriptor that was just opened: the same one, or where it is below 3 a duplicate that is not (closed on exec).
/// -1, as a call that failed leaves it, stays -1, and is returned with errno where there is no number left. The library opens
/// what it writes through this, because descriptors are the program's to arrange.
int above_standard(int fd);

/// Opens /dev/null as those of 0, 1 and 2 that are closed. For the start of a program: not every library is as careful, and
/// LibTorch's sockets would take their numbers too.
void open_standard_descriptors();

}  // namespace weft
