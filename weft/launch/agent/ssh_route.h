// Which address of this host leads to hosts that ssh reaches, as far as ssh's configuration tells beforehand.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// The address of this host's own, and no loopback, on the interface that leads to all those hosts ("user@b", a name of ssh's
/// configuration); `options` are of ssh_config(5). Empty where there is no such: they are in several networks, ssh goes through
/// a proxy, a tunnel of this host's or an address that it is told to bind to, or a name is not known. Asks `ssh -G`, for ten
/// seconds at most; sends nothing.
std::string address_towards(const std::vector<std::string>& hosts, const std::vector<std::string>& options);

/// The host that `ssh -G` says it would connect to itself; empty where something is in between.
std::string direct_host(const std::string& configuration);

}  // namespace weft
