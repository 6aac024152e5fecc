// HostMap: placement of an axis' ranks on hosts, and which ranks communicate across hosts; pure, so every shape can be tested.
//
// A rank's place is its index on its host. Rank p of one host communicates with one rank of each other host: the one at p's
// place, modulo that host's ranks. So bytes cross the network once per host, and a host's ranks share the work.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Ranks of an axis, by position, on hosts.
class HostMap {
 public:
  /// `hosts`: the host of each position.
  explicit HostMap(const std::vector<std::string>& hosts);

  int size() const { return static_cast<int>(host_of_.size()); }
  int num_hosts() const { return static_cast<int>(members_.size()); }
  /// Returns the host of a position, counted in the order of the hosts' first ranks.
  int host_of(int position) const { return host_of_[position]; }
  /// Returns the place of a position on its host.
  int place_of(int position) const { return place_of_[position]; }
  /// Returns the positions on a host, in order.
  const std::vector<int>& members(int host) const { return members_[host]; }
  /// Returns the position of `host` that communicates with `position` on another host.
  int carrier(int host, int position) const;
  /// Returns the positions on other hosts that `position` communicates with for its host, in order.
  std::vector<int> carried(int position) const;

 private:
  std::vector<std::vector<int>> members_;
  std::vector<int> host_of_, place_of_;
};

/// A sum over all ranks in two levels: each host adds up its terms locally, and a tree adds up the terms.
class HostSum {
 public:
  /// A sum that one host computes locally.
  struct Term {
    int host = 0;
    std::vector<int> places;  ///< on that host, in order: the term is their sum in the fixed tree (comm/group.h)
  };
  /// A node of the tree over terms: a term, or the sum of two earlier nodes.
  struct Node {
    int term = -1;
    int left = -1, right = -1;
  };

  /// With `in_tree_order` the sum equals that of the fixed tree over positions, bit for bit; a host has several terms if its
  /// ranks do not form whole branches. Otherwise each host has one term, and the fixed tree over hosts adds them up.
  HostSum(const HostMap& map, bool in_tree_order);

  const std::vector<Term>& terms() const { return terms_; }
  /// Nodes; the last one is the sum.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// Returns the number of terms of a host.
  int terms_of(int host) const;
  /// Returns whether the sum is the fixed tree over the terms in their order.
  bool is_plain() const { return is_plain_; }

 private:
  int add(const HostMap& map, int low, int high);
  int add_hosts(int low, int high);
  int insert(Node node);
  bool plain(int node, int low, int high) const;

  std::vector<Term> terms_;
  std::vector<Node> nodes_;
  bool is_plain_ = true;
};

}  // namespace weft
