#include "actors/setup/parameters_text.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "layers/models/model.hpp"
#include "runtime/units.hpp"

namespace millrace::actors {

std::string parameters_text(std::span<const layers::ParameterSpec> parameters, bool exact) {
  const auto text = [&](std::int64_t count) { return exact ? fmt::format("{}", count) : runtime::count_text(static_cast<double>(count)); };
  const auto [all, active] = layers::parameter_counts(parameters);
  return text(all) + " parameters" + (active < all ? fmt::format(", {} active", text(active)) : "");
}

}  // namespace millrace::actors
