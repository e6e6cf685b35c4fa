#pragma once

#include <string_view>

#include "runtime/data/templates/syntax.hpp"

namespace millrace::runtime::templates {

/// The tree of a template. Errors: context.fail() with the line, what was found and what was expected.
[[nodiscard]] Body parse(std::string_view text, Context& context);

}  // namespace millrace::runtime::templates
