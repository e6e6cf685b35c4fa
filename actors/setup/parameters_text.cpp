#include "actors/setup/parameters_text.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "layers/models/model.hpp"
#include "runtime/units.hpp"

namespace millrace::actors {

std::string parameters_text(const layers::ModelConfig& model, bool exact) {
  const auto text = [&](std::int64_t count) { return exact ? fmt::format("{}", count) : runtime::count_text(static_cast<double>(count)); };
  const std::int64_t all = layers::count_parameters(model), active = layers::count_active_parameters(model);
  return text(all) + " parameters" + (active < all ? fmt::format(", {} active", text(active)) : "");
}

}  // namespace millrace::actors
