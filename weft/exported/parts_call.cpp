#include "weft/exported/parts_call.h"

#include <ATen/core/enum_tag.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "weft/base/printable.h"
#include "weft/exported/bind_node.h"

namespace weft {

PartsCall::PartsCall(const SplitState& state, const ExportedNode& node, const BoundNode& bound)
    : state_(state), node_(node), bound_(bound), name_(bound.handle->operator_name().name) {
  const auto& arguments = bound.handle->schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ExportedArgument* const given = argument_named(node, arguments[i].name());
    if (given == nullptr) continue;
    const bool is_list = given->kind == ExportedArgument::Kind::values;
    for (size_t e = 0; e < given->values.size(); ++e) {
      if (state.graph.shapes.count(given->values[e]) > 0)
        taken_.push_back({i, is_list ? static_cast<int64_t>(e) : -1, given->values[e]});
    }
  }
  call_.name = fmt::format("'{}'", node.name);
}

PartsCall::Rule PartsCall::rule() const {
  static const std::map<std::string_view, Rule> rules = {
      {"aten::clone", &PartsCall::elementwise},
      {"aten::contiguous", &PartsCall::elementwise},
      {"aten::to", &PartsCall::as_first},
      {"aten::_to_copy", &PartsCall::elementwise},
      {"aten::type_as", &PartsCall::as_first},
      {"aten::detach", &PartsCall::elementwise},
      {"aten::alias", &PartsCall::elementwise},
      {"aten::masked_fill", &PartsCall::elementwise},
      {"aten::zeros_like", &PartsCall::elementwise},
      {"aten::ones_like", &PartsCall::elementwise},
      {"aten::full_like", &PartsCall::elementwise},
      {"aten::dropout", &PartsCall::dropout},
      {"aten::dropout_", &PartsCall::dropout},
      {"aten::view", &PartsCall::view},
      {"aten::reshape", &PartsCall::view},
      {"aten::_unsafe_view", &PartsCall::view},
      {"aten::flatten", &PartsCall::view},
      {"aten::unflatten", &PartsCall::view},
      {"aten::unsqueeze", &PartsCall::view},
      {"aten::squeeze", &PartsCall::view},
      {"aten::expand", &PartsCall::expand},
      {"aten::transpose", &PartsCall::transpose},
      {"aten::permute", &PartsCall::permute},
      {"aten::select", &PartsCall::without_dim},
      {"aten::unbind", &PartsCall::without_dim},
      {"aten::slice", &PartsCall::slice},
      {"aten::split", &PartsCall::split},
      {"aten::split_with_sizes", &PartsCall::split},
      {"aten::chunk", &PartsCall::chunk},
      {"aten::cat", &PartsCall::concatenate},
      {"aten::stack", &PartsCall::stack},
      {"aten::repeat_interleave", &PartsCall::repeat},
      {"aten::softmax", &PartsCall::along_dim},
      {"aten::log_softmax", &PartsCall::along_dim},
      {"aten::cumsum", &PartsCall::along_dim},
      {"aten::mean", &PartsCall::reduce},
      {"aten::sum", &PartsCall::reduce},
      {"aten::amax", &PartsCall::reduce},
      {"aten::var", &PartsCall::reduce},
      {"aten::layer_norm", &PartsCall::norm},
      {"aten::rms_norm", &PartsCall::norm},
      {"aten::matmul", &PartsCall::product},
      {"aten::bmm", &PartsCall::product},
      {"aten::linear", &PartsCall::whole_linear},
      {"aten::addmm", &PartsCall::whole_addmm},
      {"aten::scaled_dot_product_attention", &PartsCall::attention},
  };
  const auto found = rules.find(name_);
  if (found != rules.end()) return found->second;
  const bool is_pointwise =
      bound_.handle->hasTag(at::Tag::pointwise) && !bound_.handle->hasTag(at::Tag::nondeterministic_seeded);
  if (!is_pointwise) fail("weft does not run this operator on parts");
  return &PartsCall::elementwise;
}

SplitCall PartsCall::run() {
  const Rule applied = rule();
  for (const Taken& taken : taken_) {
    const SplitForm* const form = form_of(taken);
    if (form != nullptr && form->is_padded && applied != &PartsCall::elementwise)
      fail("parts of the classes go to the loss alone, through elementwise operators");
  }
  (this->*applied)();
  return std::move(call_);
}

void PartsCall::fail(const std::string& text, const std::string& instead) const {
  const auto divided = std::find_if(taken_.begin(), taken_.end(), [&](const Taken& x) { return form_of(x) != nullptr; });
  if (divided == taken_.end()) refuse_node(state_.graph, node_, "it takes parts by no name of its own; export it again");
  refuse_node(state_.graph, node_,
              fmt::format("'{}' is divided over the ranks of tp, but {}; {}leave the layer before it out of model.tp_columns",
                          shortened(divided->value), text, instead));
}

const SplitForm* PartsCall::form_of(const Taken& taken) const {
  const auto found = state_.forms.find(taken.value);
  return found == state_.forms.end() ? nullptr : &found->second;
}

const std::vector<ExportedDim>& PartsCall::dims(const std::string& value) const { return state_.graph.shapes.at(value).dims; }

WholeShape PartsCall::shape(const std::string& value) const {
  WholeShape sizes;
  for (const ExportedDim& dim : dims(value)) sizes.push_back(dim.size);
  return sizes;
}

int64_t PartsCall::rank(const Taken& taken) const { return std::ssize(dims(taken.value)); }

const SplitForm& PartsCall::first_form() const {
  const SplitForm* const form = taken_.empty() ? nullptr : form_of(taken_.front());
  if (form == nullptr) fail("its first argument is whole");
  return *form;
}

const ExportedArgument& PartsCall::given(const std::string& name) const {
  if (argument(name) == nullptr) fail(fmt::format("its '{}' is missing", name));
  return *argument(name);
}

const ExportedArgument* PartsCall::argument(const std::string& name) const { return argument_named(node_, name); }

int64_t PartsCall::integer(const std::string& name, int64_t otherwise) const {
  const ExportedArgument* const given = argument(name);
  if (given == nullptr || given->kind == ExportedArgument::Kind::none) return otherwise;
  if (given->integers.size() != 1 || !given->values.empty()) fail(fmt::format("its '{}' is no fixed number", name));
  return given->integers.front();
}

int64_t PartsCall::wrapped(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }

int64_t PartsCall::dim_of(const std::string& name, int64_t otherwise) const {
  return wrapped(integer(name, otherwise), rank(taken_.front()));
}

size_t PartsCall::index_of(const std::string& name) const {
  const auto index = bound_.handle->schema().argumentIndexWithName(name);
  if (!index) fail(fmt::format("it takes no '{}'", name));
  return static_cast<size_t>(*index);
}

void PartsCall::give(const std::string& output, const SplitForm& form) {
  if (output.empty()) return;
  const auto shape = state_.graph.shapes.find(output);
  if (shape == state_.graph.shapes.end() || form.dim >= std::ssize(shape->second.dims)) fail("it makes no such tensor");
  const int64_t size = shape->second.dims[static_cast<size_t>(form.dim)].size;
  if (!form.is_padded) {
    if (size % form.segments != 0) fail("its segments do not stay whole");
    state_.sources.divide(form.source, size / form.segments);
  }
  state_.forms[output] = form;
}

void PartsCall::give_all(const SplitForm& form) {
  for (const std::string& output : node_.outputs) give(output, form);
}

void PartsCall::take_beside(const Taken& whole, int64_t dim, const SplitForm& form) {
  const ExportedShape& shape = state_.graph.shapes.at(whole.value);
  const bool is_written = std::find(bound_.changes.begin(), bound_.changes.end(), whole.value) != bound_.changes.end();
  if (is_written) fail(fmt::format("it writes parts into '{}', which is whole", shortened(whole.value)));
  if (dim >= 0 && shape.dims[static_cast<size_t>(dim)].size > 1) {
    if (form.segments > 1 || form.is_padded) fail(fmt::format("'{}' beside it is whole", shortened(whole.value)));
    state_.sources.divide(form.source, shape.dims[static_cast<size_t>(dim)].size);
    call_.changes.push_back({SplitChange::Kind::parted, whole.argument, whole.element, dim});
  } else {
    call_.changes.push_back({SplitChange::Kind::copied, whole.argument, whole.element, 0, state_.flow.is_changed(whole.value)});
  }
}

void PartsCall::take_rest_beside(const SplitForm& form) {
  for (size_t i = 1; i < taken_.size(); ++i) {
    if (form_of(taken_[i]) != nullptr) fail(fmt::format("so is '{}' beside it", shortened(taken_[i].value)));
    take_beside(taken_[i], -1, form);
  }
}

SplitForm PartsCall::meet(int64_t rank_of_all) {
  std::optional<SplitForm> met;
  for (const Taken& taken : taken_) {
    const SplitForm* const form = form_of(taken);
    if (form == nullptr) continue;
    SplitForm here = *form;
    here.dim += rank_of_all - rank(taken);
    if (met && (met->dim != here.dim || met->segments != here.segments || met->is_padded != here.is_padded))
      fail("its arguments are divided in different ways");
    if (met) here.source = state_.sources.join(met->source, here.source);
    met = here;
  }
  if (!met) fail("it takes none");
  for (const Taken& taken : taken_) {
    if (form_of(taken) == nullptr) take_beside(taken, met->dim - (rank_of_all - rank(taken)), *met);
  }
  return *met;
}

void PartsCall::elementwise() {
  int64_t most = 0;
  for (const Taken& taken : taken_) most = std::max(most, rank(taken));
  give_all(meet(most));
}

/// What follows the first argument gives a type alone.
void PartsCall::as_first() {
  if (form_of(taken_.front()) != nullptr) give_all(*form_of(taken_.front()));
}

void PartsCall::dropout() {
  const SplitForm& form = first_form();
  if (!dims(taken_.front().value)[static_cast<size_t>(form.dim)].symbol.empty())
    fail("along samples, so that its mask could not be the same in every layout");
  call_.dim = form.dim;
  call_.segments = form.segments;
  give_all(form);
}

void PartsCall::along_dim() {
  const SplitForm& form = first_form();
  if (dim_of("dim", 0) == form.dim) fail("the operator runs along that dimension");
  give_all(form);
}

void PartsCall::reduce() {
  SplitForm form = first_form();
  const ExportedArgument* const given = argument("dim");
  const bool keeps = argument("keepdim") != nullptr && argument("keepdim")->integers.front() != 0;
  if (given == nullptr || given->integers.empty()) fail("the operator reduces over all of it");
  int64_t before = 0;
  for (const int64_t each : given->integers) {
    const int64_t dim = wrapped(each, rank(taken_.front()));
    if (dim == form.dim) fail("the operator reduces over that dimension");
    before += dim < form.dim ? 1 : 0;
  }
  form.dim -= keeps ? 0 : before;
  give_all(form);
}

void PartsCall::norm() {
  const SplitForm& form = first_form();
  if (form.dim >= rank(taken_.front()) - rank_of_list("normalized_shape")) fail("the norm is over that dimension");
  take_rest_beside(form);
  give_all(form);
}

void PartsCall::product() {
  if (taken_.size() != 2) fail("this is no product of two");
  const Taken &a = taken_[0], &b = taken_[1];
  const SplitForm *const of_a = form_of(a), *const of_b = form_of(b);
  const int64_t most = std::max(rank(a), rank(b));
  const bool a_by_batch = of_a != nullptr && of_a->dim < rank(a) - 2, b_by_batch = of_b != nullptr && of_b->dim < rank(b) - 2;
  if (rank(a) < 2 || rank(b) < 2) fail("a product with a vector is not run on parts");
  if ((of_a == nullptr || a_by_batch) && (of_b == nullptr || b_by_batch)) return give_all(meet(most));
  const bool by_rows = of_b == nullptr && of_a->dim == rank(a) - 2, by_columns = of_a == nullptr && of_b->dim == rank(b) - 1;
  if (!by_rows && !by_columns) fail("this product would be a sum over ranks");
  SplitForm form = by_rows ? *of_a : *of_b;
  take_beside(by_rows ? b : a, -1, form);
  form.dim += most - (by_rows ? rank(a) : rank(b));
  give_all(form);
}

void PartsCall::whole_linear() {
  const SplitForm& form = first_form();
  if (form.dim == rank(taken_.front()) - 1) fail("this layer takes whole rows", "put it into model.tp_rows, or ");
  take_rest_beside(form);
  give_all(form);
}

void PartsCall::whole_addmm() {
  const SplitForm* const rows = form_of(taken_[1]);
  if (rows != nullptr && rows->dim == 1) fail("this layer takes whole rows", "put it into model.tp_rows, or ");
  fail("weft does not run this operator on parts of other dimensions than the last");
}

void PartsCall::attention() {
  const ExportedArgument* const p = argument("dropout_p");
  const bool drops = p != nullptr && p->numbers != std::vector<double>{0.0} && p->integers != std::vector<int64_t>{0};
  if (drops)
    fail("attention drops at random within, differently on each rank: export it without dropout, or with torch.nn.Dropout");
  const SplitForm form = meet(rank(taken_.front()));
  if (form.dim >= rank(taken_.front()) - 2) fail("along tokens or features, not heads");
  give_all(form);
}

}  // namespace weft
