#include "weft/comm/two_level/host_map.h"

#include <algorithm>
#include <map>

namespace weft {
namespace {

/// Split point of the fixed tree for [low, high), which has at least two elements.
int middle(int low, int high) {
  int half = 1;
  while (half * 2 < high - low) half *= 2;
  return low + half;
}

}  // namespace

HostMap::HostMap(const std::vector<std::string>& hosts) {
  std::map<std::string, int> numbers;
  for (size_t position = 0; position < hosts.size(); ++position) {
    const int host = numbers.emplace(hosts[position], static_cast<int>(numbers.size())).first->second;
    if (host == num_hosts()) members_.emplace_back();
    host_of_.push_back(host);
    place_of_.push_back(static_cast<int>(members_[host].size()));
    members_[host].push_back(static_cast<int>(position));
  }
}

int HostMap::carrier(int host, int position) const {
  return members_[host][place_of_[position] % static_cast<int>(members_[host].size())];
}

std::vector<int> HostMap::carried(int position) const {
  std::vector<int> result;
  for (int other = 0; other < size(); ++other) {
    if (host_of_[other] != host_of_[position] && carrier(host_of_[position], other) == position) result.push_back(other);
  }
  return result;
}

HostSum::HostSum(const HostMap& map, bool in_tree_order) {
  if (in_tree_order) {
    add(map, 0, map.size());
  } else {
    for (int host = 0; host < map.num_hosts(); ++host) {
      Term term{host, {}};
      for (const int position : map.members(host)) term.places.push_back(map.place_of(position));
      terms_.push_back(std::move(term));
    }
    add_hosts(0, map.num_hosts());
  }
  is_plain_ = plain(static_cast<int>(nodes_.size()) - 1, 0, static_cast<int>(terms_.size()));
}

int HostSum::insert(Node node) {
  nodes_.push_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

// A branch with all its leaves on one host is a term.
int HostSum::add(const HostMap& map, int low, int high) {
  const int host = map.host_of(low);
  bool together = true;
  for (int position = low; position < high; ++position) together = together && map.host_of(position) == host;
  if (together) {
    Term term{host, {}};
    for (int position = low; position < high; ++position) term.places.push_back(map.place_of(position));
    terms_.push_back(std::move(term));
    return insert({static_cast<int>(terms_.size()) - 1, -1, -1});
  }
  const int left = add(map, low, middle(low, high)), right = add(map, middle(low, high), high);
  return insert({-1, left, right});
}

int HostSum::add_hosts(int low, int high) {
  if (high - low == 1) return insert({low, -1, -1});
  const int left = add_hosts(low, middle(low, high)), right = add_hosts(middle(low, high), high);
  return insert({-1, left, right});
}

int HostSum::terms_of(int host) const {
  return static_cast<int>(std::count_if(terms_.begin(), terms_.end(), [&](const Term& term) { return term.host == host; }));
}

bool HostSum::plain(int node, int low, int high) const {
  if (high - low == 1) return nodes_[node].term == low;
  if (nodes_[node].term >= 0) return false;
  return plain(nodes_[node].left, low, middle(low, high)) && plain(nodes_[node].right, middle(low, high), high);
}

}  // namespace weft
