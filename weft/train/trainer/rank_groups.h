// RankGroups: the groups used by a rank's steps, made once. Axes that join the same ranks share one.
#pragma once

#include <exception>
#include <memory>
#include <type_traits>

#include "weft/base/error.h"
#include "weft/comm/audit/call_audit.h"
#include "weft/comm/mesh.h"
#include "weft/engine/axis_groups.h"
#include "weft/program/program.h"

namespace weft {

/// The groups of one rank.
struct RankGroups {
  AxisGroups by_axes;  ///< for the engine; that of kDataAxes is the first of all()

  void throw_if_failed() const {
    for (const Group& group : by_axes.all()) group.throw_if_failed();
  }

  void settle() const {
    for (const Group& group : by_axes.all()) group.settle();
  }

  /// Throws the error of a group that has ended, if that explains a device's error. Too little memory needs no explanation.
  void explain(const std::exception& error) const;

  /// Returns call(). Its results count only if no group has failed on a device meanwhile; throws that group's error, also
  /// instead of another one: after a failure the host reads what happens to be in memory, such as a loss that is NaN.
  template <class Call>
  auto checked(const Call& call) const {
    try {
      if constexpr (std::is_void_v<decltype(call())>) {
        call();
        settle();
      } else {
        auto result = call();
        settle();
        return result;
      }
    } catch (const Error&) {
      throw_if_failed();
      throw;
    } catch (const std::exception& error) {
      throw_if_failed();
      explain(error);
      throw;
    }
  }
};

/// Makes the groups of group_specs(); only groups for gradients use GroupOptions::across_hosts. With `audit`, their calls are
/// checked while it is on. Collective over the world.
RankGroups make_groups(const Mesh& mesh, const Program& program, const GroupOptions& options,
                       const std::shared_ptr<CallAudit>& audit = {});

}  // namespace weft
