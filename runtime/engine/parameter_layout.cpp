#include "runtime/engine/parameter_layout.hpp"

#include <algorithm>

#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "kernels/packing.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* kWho = "runtime.parameter_layout";

void add_use(StoredParameter& tensor, const StageParameter& parameter) {
  MILLRACE_CHECK(tensor.shape == parameter.shape, ExitCode::internal, kWho, "{} is {} in stage {} and {} elsewhere, expected one shape",
                 parameter.name, kernels::to_string(parameter.shape), parameter.stage, kernels::to_string(tensor.shape));
  MILLRACE_CHECK(!tensor.has_use(parameter.use), ExitCode::internal, kWho, "use {} of {} is declared twice on one rank", parameter.use,
                 parameter.name);
  tensor.plain = tensor.plain || parameter.plain;
  for (std::size_t form = 0; form < tensor.packed.size(); ++form) tensor.packed[form] = tensor.packed[form] || parameter.packed[form];
  tensor.in_f32 = tensor.in_f32 || parameter.in_f32;
  tensor.uses.push_back({parameter.stage, parameter.use, parameter.copy, 0});
}

std::size_t take(std::size_t& end, std::size_t bytes) {
  const std::size_t begin = end;
  end += kernels::align_up(bytes);
  return begin;
}

}  // namespace

std::vector<StageParameter> parameters_of(const ProgramSet& programs, StageId stage) {
  std::vector<StageParameter> list;
  for (const Value& value : programs.values) {
    // A parameter that is read packed as well has a second value.
    if (value.role != Role::parameter || value.form != WeightForm::plain) continue;
    StageParameter parameter{value.name, value.type.shape, stage, value.use, static_cast<int>(list.size()), value.type.shape.rank() > 1};
    parameter.in_f32 = value.type.dtype == kernels::DType::f32;
    list.push_back(std::move(parameter));
  }
  return list;
}

bool StoredParameter::has_use(int use) const noexcept {
  return std::any_of(uses.begin(), uses.end(), [use](const Use& other) { return other.use == use; });
}

bool StoredParameter::is_owner() const noexcept {
  return std::any_of(uses.begin(), uses.end(), [](const Use& each) { return each.use == 0 && !each.copy; });
}

ParameterLayout::ParameterLayout(const std::vector<StageParameter>& parameters, kernels::DType compute) {
  for (const StageParameter& parameter : parameters) {
    auto tensor =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const StoredParameter& other) { return other.name == parameter.name; });
    if (tensor == tensors_.end()) {
      tensors_.push_back({parameter.name, parameter.shape, parameter.order, parameter.decays, false, 0, 0, false, {}, false, {}, {}});
      tensor = tensors_.end() - 1;
    }
    add_use(*tensor, parameter);
  }
  std::stable_sort(tensors_.begin(), tensors_.end(), [](const StoredParameter& a, const StoredParameter& b) { return a.order < b.order; });
  std::size_t passing = 0;  // bytes of the largest copy that is only used for packing
  for (StoredParameter& tensor : tensors_) {
    tensor.copied = compute == kernels::DType::bf16 && !tensor.in_f32;
    tensor.offset = take(master_bytes_, tensor.bytes());
    const std::size_t copy = tensor.copied ? tensor.elements() * sizeof(kernels::BFloat16) : 0;
    if (tensor.plain)
      tensor.copy = take(copy_bytes_, copy);
    else
      passing = std::max(passing, copy);
    for (std::size_t form = 0; form < tensor.packed.size(); ++form)
      if (tensor.packed[form])
        tensor.packed_copy[form] = take(copy_bytes_, kernels::packed_bytes(tensor.shape[form], tensor.shape[1 - form], compute));
    std::sort(tensor.uses.begin(), tensor.uses.end(), [](const auto& a, const auto& b) { return a.use < b.use; });
    for (StoredParameter::Use& use : tensor.uses) use.accumulator = take(accumulator_bytes_, tensor.bytes());
  }
  const std::size_t place = take(copy_bytes_, passing);
  for (StoredParameter& tensor : tensors_)
    if (!tensor.plain) tensor.copy = place;
}

const StoredParameter* ParameterLayout::find(std::string_view name) const noexcept {
  for (const StoredParameter& tensor : tensors_) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

const StoredParameter& ParameterLayout::at(std::string_view name) const {
  const StoredParameter* tensor = find(name);
  MILLRACE_CHECK(tensor != nullptr, ExitCode::internal, kWho, "no parameter \"{}\" on this rank", name);
  return *tensor;
}

ParameterPlaces ParameterLayout::places() const {
  ParameterPlaces places;
  places.parameter = [this](const Value& value) -> Place {
    const StoredParameter& tensor = at(value.name);
    if (value.form != WeightForm::plain) return {Region::copy, tensor.packed_copy[value.form == WeightForm::packed_turned ? 1 : 0]};
    if (value.type.dtype == kernels::DType::bf16) return {Region::copy, tensor.copy};
    return {Region::master, tensor.offset};
  };
  places.accumulator = [this](const Value& value) -> Place {
    const StoredParameter& tensor = at(value.name);
    for (const StoredParameter::Use& use : tensor.uses) {
      if (use.use == value.use) return {Region::accumulator, use.accumulator};
    }
    fail(ExitCode::internal, kWho, "no accumulator for use {} of {}", value.use, value.name);
  };
  return places;
}

}  // namespace millrace::runtime
