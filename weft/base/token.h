// Secrets that the processes of a job share (WEFT_TOKEN): whoever knows one belongs to the job.
#pragma once

#include <string>

namespace weft {

/// Fresh bytes that nobody can guess, from the system. Throws Error where it gives none.
std::string random_bytes(int count);

/// A fresh secret: 256 random bits as 64 hexadecimal digits. It belongs into environments and files that only their owner
/// reads, never onto a command line, which every user of the host sees.
std::string make_token();

}  // namespace weft
