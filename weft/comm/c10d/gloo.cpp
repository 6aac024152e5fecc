#include "weft/base/error.h"
#include "weft/comm/backend.h"
namespace weft {
std::shared_ptr<Group::Backend> make_gloo_backend(const GroupPlan& plan) { throw InputError("gloo: later"); }
}  // namespace weft
