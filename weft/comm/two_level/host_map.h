// HostMap: how the ranks of an axis lie on hosts, and who talks to whom across: pure, so that every shape can be tested.
//
// A rank has a place on its host. What a host sends to rank p of another host, or is sent by it, goes through one rank of its
// own: the one whose place is p's, modulo the host's ranks. So every byte crosses once for each host, and a host's ranks share
// the work.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Ranks of an axis, by position, on hosts.
class HostMap {
 public:
  /// `hosts`: of each position.
  explicit HostMap(const std::vector<std::string>& hosts);

  int size() const { return static_cast<int>(host_of_.size()); }
  int num_hosts() const { return static_cast<int>(members_.size()); }
  /// The host of a position, counted in the order of the hosts' first ranks.
  int host_of(int position) const { return host_of_[position]; }
  /// The position's number among those of its host.
  int place_of(int position) const { return place_of_[position]; }
  /// The positions on a host, in order.
  const std::vector<int>& members(int host) const { return members_[host]; }
  /// Which position of `host` talks to `position`, which is on another one.
  int carrier(int host, int position) const;
  /// The positions of other hosts that `position` talks to for its host, in order.
  std::vector<int> carried(int position) const;

 private:
  std::vector<std::vector<int>> members_;
  std::vector<int> host_of_, place_of_;
};

/// A sum over all ranks, as hosts make it: each adds up what it can by itself, its terms, and the terms are added up in a tree.
class HostSum {
 public:
  /// What one host can add up by itself.
  struct Term {
    int host = 0;
    std::vector<int> places;  ///< on that host, in order: the term is their sum in the fixed tree (comm/group.h)
  };
  /// A node of the tree over terms: a term, or the sum of two nodes before it.
  struct Node {
    int term = -1;
    int left = -1, right = -1;
  };

  /// With `in_tree_order` the sum is that of the fixed tree over positions, bit for bit; a host has several terms where its
  /// ranks are no whole branches of it. Else each host has one, and these are added up in the fixed tree over hosts.
  HostSum(const HostMap& map, bool in_tree_order);

  const std::vector<Term>& terms() const { return terms_; }
  /// The last is the sum.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// How many terms a host has.
  int terms_of(int host) const;
  /// Whether the sum is the fixed tree over the terms as they stand.
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
