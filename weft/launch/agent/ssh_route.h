// Finds this host's address towards hosts that ssh reaches, as far as ssh's configuration shows it in advance.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Returns this host's own non-loopback address on the interface that leads to all those hosts ("user@b", a name of ssh's
/// configuration); `options` as in ssh_config(5). Empty if there is no single such address: the hosts are in several networks,
/// ssh uses a proxy, a tunnel of this host or a bind address, or a name is unknown. Runs `ssh -G`, for at most ten seconds;
/// sends nothing.
std::string address_towards(const std::vector<std::string>& hosts, const std::vector<std::string>& options);

/// Host to which `ssh -G` says it would connect directly; empty if a proxy or a bind address is set.
std::string direct_host(const std::string& configuration);

}  // namespace weft
