#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/nearest.hpp"
#include "runtime/data/templates/value.hpp"

/// What templates can call: the filters, tests, methods and functions that published chat templates use, with Jinja's names and results.
/// Errors: context.fail(), with the nearest name for one that does not exist.
namespace millrace::runtime::templates {

/// The entry of a table of filters or tests. `kind`: "filter" or "test".
template <class Table>
const typename Table::mapped_type& called(const Table& table, const char* kind, const std::string& name, Context& context) {
  if (const auto found = table.find(name); found != table.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, function] : table) names.emplace_back(known);
  context.fail(fmt::format("there is no {} {}{}", kind, name, did_you_mean(name, names)));
}

[[nodiscard]] Value apply_filter(const std::string& name, const Value& subject, Arguments& arguments, Context& context);
[[nodiscard]] bool apply_test(const std::string& name, const Value& subject, Arguments& arguments, Context& context);
/// A method of a text or a mapping, as a function; undefined if there is none of this name.
[[nodiscard]] Value method_of(const Value& subject, const std::string& name, Context& context);
/// The functions range, namespace, dict, raise_exception and strftime_now.
[[nodiscard]] Entries functions();

/// Returns a list, mapping or text from `first` to `last` in steps, as Python slices it; each bound may be none.
[[nodiscard]] Value slice_of(const Value& subject, const Value& first, const Value& last, const Value& step, Context& context);
/// The element at an index (from the end if it is negative) or with a key; undefined if there is none.
[[nodiscard]] Value element_of(const Value& subject, const Value& key, Context& context);

/// A text without these characters at its ends; empty `characters`: white space.
[[nodiscard]] std::string stripped(std::string_view text, std::string_view characters, bool left, bool right);

}  // namespace millrace::runtime::templates
