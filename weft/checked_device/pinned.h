// Pinned memory of the host. While a copy from it is under way its pages cannot be written, and while a copy to it is, not be
// touched at all, until the host has waited for that copy.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

#include "weft/checked_device/accesses.h"

namespace weft::checked_device {

c10::Allocator* pinned_allocator();

/// Returns whether this is pinned memory.
bool is_pinned(const void* address);

/// A copy between the device and this pinned memory starts: checks it against those under way, and opens the pages for it.
void begin_pinned_copy(const void* address, bool writes, const Access& now);

/// Its bytes have been moved, or an error has come in between.
void end_pinned_copy(const void* address);

/// It was not waited for: closes the pages.
void close_pinned(const void* address, bool writes, const Access& now);

/// Opens what the host has waited for. Under order_mutex().
void open_pinned();

/// Whether the host may read and write it by now. Under order_mutex().
bool is_open(const void* address);

/// As describe_address() of memory.h.
int describe_pinned(const void* address, char* text, size_t length);

}  // namespace weft::checked_device
