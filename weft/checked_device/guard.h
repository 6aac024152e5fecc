// What LibTorch asks a device for: its current device, streams and events, generators and pinned memory.
#pragma once

namespace weft::checked_device {

void register_guard();
void install_fault_handler();

}  // namespace weft::checked_device
