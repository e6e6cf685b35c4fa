#include "runtime/optimizers/parameter_groups.hpp"

#include <algorithm>
#include <span>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* groups_component = "runtime.optimizers";

void check_length(const char* key, std::size_t found, const TrainConfig& train) {
  MILLRACE_CHECK(found == 0 || found == train.groups.size(), ExitCode::config, groups_component,
                 "{} has {}, expected one for each of the {} in train.groups", key, counted(found, "value"), train.groups.size());
}

}  // namespace

ParameterGroups::ParameterGroups(const TrainConfig& train) : decay_(train) {
  check_length("train.group_rates", train.group_rates.size(), train);
  check_length("train.group_weight_decays", train.group_weight_decays.size(), train);
  for (std::size_t i = 0; i < train.groups.size(); ++i) {
    Group& group = groups_.emplace_back();
    group.names = NamePatterns("train.groups", std::span(train.groups).subspan(i, 1));
    if (!train.group_rates.empty()) group.scalars.rate = train.group_rates[i];
    if (train.group_weight_decays.empty()) continue;
    const double decay = train.group_weight_decays[i];
    MILLRACE_CHECK(decay >= 0 || decay == -1, ExitCode::config, groups_component,
                   "train.group_weight_decays has {} for {}, expected a number from 0 on, or -1 for the decay without groups", decay,
                   train.groups[i]);
    if (decay >= 0) group.scalars.weight_decay = decay;
  }
}

std::optional<std::size_t> ParameterGroups::group_of(std::string_view name) const {
  const auto found = std::ranges::find_if(groups_, [&](const Group& group) { return group.names.match(name); });
  if (found == groups_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - groups_.begin());
}

GroupScalars ParameterGroups::scalars(std::string_view name) const {
  const auto index = group_of(name);
  return index ? groups_[*index].scalars : GroupScalars{};
}

bool ParameterGroups::decays(std::string_view name, const kernels::Shape& shape) const {
  return scalars(name).weight_decay.has_value() || decay_.decays(name, shape);
}

}  // namespace millrace::runtime
