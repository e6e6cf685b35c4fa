#include <map>

#include "kernels/base/check.hpp"
#include "runtime/data/templates/builtins.hpp"
#include "runtime/data/tokenizers/unicode.hpp"

namespace millrace::runtime::templates {
namespace {

using Test = bool (*)(const Value& subject, const Arguments& arguments, Context& context);

/// The value that a test compares with.
const Value& other(const Arguments& arguments, Context& context) {
  if (arguments.positional.empty()) context.fail("a test without a value to compare with");
  return arguments.positional[0];
}

std::int64_t remainder(const Value& subject, std::int64_t divisor, Context& context) {
  if (subject.as_integer() == nullptr || divisor == 0)
    context.fail(fmt::format("the remainder of {} by {}, expected integers", subject.kind(), divisor));
  return divisor == -1 ? 0 : *subject.as_integer() % divisor;
}

bool same(const Value& subject, const Arguments& arguments, Context& context) { return equal(subject, other(arguments, context), context); }
bool different(const Value& subject, const Arguments& arguments, Context& context) { return !same(subject, arguments, context); }
template <int Sign, bool OrEqual>
bool ordered(const Value& subject, const Arguments& arguments, Context& context) {
  const int order = compare(subject, other(arguments, context), context);
  return order * Sign > 0 || (OrEqual && order == 0);
}
bool is_sequence(const Value& value) { return value.as_list() != nullptr || value.as_text() != nullptr || value.as_mapping() != nullptr; }

const std::map<std::string_view, Test>& tests() {
  static const std::map<std::string_view, Test> all{
      {"defined", [](const auto& value, const auto&, auto&) { return !value.is_undefined(); }},
      {"undefined", [](const auto& value, const auto&, auto&) { return value.is_undefined(); }},
      {"none", [](const auto& value, const auto&, auto&) { return value.is_none(); }},
      {"string", [](const auto& value, const auto&, auto&) { return value.as_text() != nullptr; }},
      {"mapping", [](const auto& value, const auto&, auto&) { return value.as_mapping() != nullptr; }},
      {"sequence", [](const auto& value, const auto&, auto&) { return is_sequence(value) || value.is_undefined(); }},
      {"iterable", [](const auto& value, const auto&, auto&) { return is_sequence(value) || value.is_undefined(); }},
      {"boolean", [](const auto& value, const auto&, auto&) { return value.as_boolean() != nullptr; }},
      {"true", [](const auto& value, const auto&, auto&) { return value.as_boolean() != nullptr && *value.as_boolean(); }},
      {"false", [](const auto& value, const auto&, auto&) { return value.as_boolean() != nullptr && !*value.as_boolean(); }},
      {"integer", [](const auto& value, const auto&, auto&) { return value.as_integer() != nullptr; }},
      {"float", [](const auto& value, const auto&, auto&) { return value.as_real() != nullptr; }},
      {"number", [](const auto& value, const auto&, auto&) { return value.is_number(); }},
      {"callable", [](const auto& value, const auto&, auto&) { return value.as_function() != nullptr; }},
      {"odd", [](const auto& value, const auto&, auto& context) { return remainder(value, 2, context) != 0; }},
      {"even", [](const auto& value, const auto&, auto& context) { return remainder(value, 2, context) == 0; }},
      {"divisibleby",
       [](const auto& value, const auto& given, auto& context) {
         const Value& divisor = other(given, context);
         return remainder(value, divisor.as_integer() != nullptr ? *divisor.as_integer() : 0, context) == 0;
       }},
      {"upper",
       [](const auto& value, const auto&, auto& context) {
         const std::string text = text_of(value, context);
         return text == upper_case(text) && text != lower_case(text);
       }},
      {"lower",
       [](const auto& value, const auto&, auto& context) {
         const std::string text = text_of(value, context);
         return text == lower_case(text) && text != upper_case(text);
       }},
      {"in", [](const auto& value, const auto& given, auto& context) { return contains(other(given, context), value, context); }},
      {"equalto", same},
      {"eq", same},
      {"==", same},
      {"sameas", same},
      {"ne", different},
      {"!=", different},
      {"lt", ordered<-1, false>},
      {"lessthan", ordered<-1, false>},
      {"<", ordered<-1, false>},
      {"le", ordered<-1, true>},
      {"<=", ordered<-1, true>},
      {"gt", ordered<1, false>},
      {"greaterthan", ordered<1, false>},
      {">", ordered<1, false>},
      {"ge", ordered<1, true>},
      {">=", ordered<1, true>}};
  return all;
}

}  // namespace

bool apply_test(const std::string& name, const Value& subject, Arguments& arguments, Context& context) {
  return called(tests(), "test", name, context)(subject, arguments, context);
}

}  // namespace millrace::runtime::templates
