#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "kernels/base/check.hpp"
#include "runtime/data/templates/builtins.hpp"

namespace millrace::runtime::templates {
namespace {

using Filter = Value (*)(const Value& subject, Arguments& arguments, Context& context);

Value called(const char* method, const Value& subject, Arguments& arguments, Context& context) {
  const Value text = Value::text(text_of(subject, context));
  return method_of(text, method, context).as_function()->call(context, arguments);
}

/// The attribute "a.b.0" of an element.
Value attribute_of(Value element, const std::string& path, Context& context) {
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    const std::string part = path.substr(at, end - at);
    const bool index = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    element = element_of(element, index ? Value::integer(std::stoll(part)) : Value::text(part), context);
    at = end + 1;
  }
  return element;
}

Value join(const Value& subject, Arguments& arguments, Context& context) {
  const std::string between = text_of(arguments.get(0, "d", Value::text("")), context);
  const Value attribute = arguments.get(1, "attribute", Value::none());
  std::string out;
  bool first = true;
  for (const auto& element : iterate(subject, context)) {
    if (!first) out += between;
    first = false;
    out += text_of(attribute.as_text() != nullptr ? attribute_of(element, *attribute.as_text(), context) : element, context);
    context.spend(between.size());
  }
  return Value::text(std::move(out));
}

Value items(const Value& subject, Arguments&, Context& context) {
  std::vector<Value> pairs;
  if (!subject.is_undefined()) {
    if (subject.as_mapping() == nullptr) context.fail(fmt::format("items of {}, expected a mapping", subject.kind()));
    for (const auto& [key, value] : subject.as_mapping()->entries) pairs.push_back(Value::list({Value::text(key), value}, &context));
  }
  context.spend(64 * pairs.size());
  return Value::list(std::move(pairs), &context);
}

Value default_filter(const Value& subject, Arguments& arguments, Context&) {
  const bool also_false = arguments.get(1, "boolean", Value::boolean(false)).truth();
  const bool missing = subject.is_undefined() || (also_false && !subject.truth());
  return missing ? arguments.get(0, "default_value", Value::text("")) : subject;
}

Value indent(const Value& subject, Arguments& arguments, Context& context) {
  const Value width = arguments.get(0, "width", Value::integer(4));
  std::string by;
  if (width.as_text() != nullptr) by = *width.as_text();
  if (width.as_integer() != nullptr)
    by = std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(*width.as_integer(), 0, 1000)), ' ');
  const bool first = arguments.get(1, "first", Value::boolean(false)).truth(),
             blank = arguments.get(2, "blank", Value::boolean(false)).truth();
  const std::string text = text_of(subject, context);
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (at == 0 ? first : blank || end > at) out += by;
    context.spend(by.size());
    out.append(text, at, end - at);
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return Value::text(std::move(out));
}

Value integer(const Value& subject, Arguments& arguments, Context&) {
  const Value initial = arguments.get(0, "default", Value::integer(0));
  if (subject.as_integer() != nullptr) return subject;
  double number = 0;
  if (subject.is_number()) {
    number = subject.number();
  } else if (subject.as_text() != nullptr) {
    const std::string text = stripped(*subject.as_text(), "", true, true);
    const char *begin = text.data() + (text.starts_with('+') ? 1 : 0), *end = text.data() + text.size();
    std::int64_t whole = 0;
    if (const auto read = std::from_chars(begin, end, whole); read.ec == std::errc() && read.ptr == end) return Value::integer(whole);
    if (const auto read = std::from_chars(begin, end, number); read.ec != std::errc() || read.ptr != end) return initial;
  } else {
    return initial;
  }
  return std::abs(number) < 9e18 ? Value::integer(static_cast<std::int64_t>(number)) : initial;
}

Value real(const Value& subject, Arguments& arguments, Context&) {
  if (subject.is_number()) return Value::real(subject.number());
  if (subject.as_text() != nullptr) {
    const std::string text = stripped(*subject.as_text(), "", true, true);
    double number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return Value::real(number);
  }
  return arguments.get(0, "default", Value::real(0));
}

Value json(const Value& subject, Arguments& arguments, Context& context) {
  // transformers' own filter: (value, ensure_ascii, indent, separators, sort_keys).
  const Value indent = arguments.get(1, "indent", Value::none());
  const Value* first = arguments.find(0, "ensure_ascii");
  const Value width = first != nullptr && first->as_integer() != nullptr ? *first : indent;
  if (arguments.get(2, "separators", Value::none()).truth() || arguments.get(3, "sort_keys", Value::boolean(false)).truth())
    context.fail("tojson with separators or sort_keys, expected indent alone");
  return Value::text(json_of(subject, width.as_integer() != nullptr ? std::min<std::int64_t>(*width.as_integer(), 100) : -1, context));
}

Value end_of(const Value& subject, bool first, Context& context) {
  const auto elements = iterate(subject, context);
  return elements.empty() ? Value::undefined(first ? "first" : "last") : first ? elements.front() : elements.back();
}

Value reversed(const Value& subject, Arguments&, Context& context) {
  auto elements = iterate(subject, context);
  std::reverse(elements.begin(), elements.end());
  if (subject.as_text() == nullptr) return Value::list(std::move(elements), &context);
  Arguments none;
  return join(Value::list(std::move(elements), &context), none, context);
}

/// The part of an element by which sort, min, max and unique go.
Value key_of(const Value& element, const Arguments& arguments, std::size_t position, Context& context) {
  const Value attribute = arguments.get(position, "attribute", Value::none());
  return attribute.as_text() != nullptr ? attribute_of(element, *attribute.as_text(), context) : element;
}

Value sorted(const Value& subject, Arguments& arguments, Context& context) {
  auto elements = iterate(subject, context);
  const bool reverse = arguments.get(0, "reverse", Value::boolean(false)).truth();
  std::vector<std::pair<Value, Value>> keyed;
  for (auto& element : elements) {
    Value key = key_of(element, arguments, 2, context);
    if (key.as_text() != nullptr && !arguments.get(1, "case_sensitive", Value::boolean(false)).truth()) {
      Arguments none;
      key = called("lower", key, none, context);
    }
    keyed.emplace_back(std::move(key), element);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& left, const auto& right) {
    const int order = compare(left.first, right.first, context);
    return reverse ? order > 0 : order < 0;
  });
  for (std::size_t i = 0; i < keyed.size(); ++i) elements[i] = keyed[i].second;
  return Value::list(std::move(elements), &context);
}

Value extreme(const Value& subject, const Arguments& arguments, int sign, Context& context) {
  Value best = Value::undefined("min or max");
  for (const auto& element : iterate(subject, context))
    if (best.is_undefined() || sign * compare(key_of(element, arguments, 1, context), key_of(best, arguments, 1, context), context) > 0)
      best = element;
  return best;
}

Value unique(const Value& subject, Arguments& arguments, Context& context) {
  std::vector<Value> kept;
  for (const auto& element : iterate(subject, context)) {
    const Value key = key_of(element, arguments, 1, context);
    const bool seen = std::any_of(kept.begin(), kept.end(),
                                  [&](const Value& other) { return equal(key_of(other, arguments, 1, context), key, context); });
    if (!seen) kept.push_back(element);
  }
  return Value::list(std::move(kept), &context);
}

Value sum(const Value& subject, Arguments& arguments, Context& context) {
  double real = 0;
  std::int64_t whole = 0;
  bool exact = true;
  for (const auto& element : iterate(subject, context)) {
    const Value number = key_of(element, arguments, 0, context);
    if (!number.is_number()) context.fail(fmt::format("sum of {}, expected numbers", number.kind()));
    exact = exact && number.as_real() == nullptr && std::abs(number.number()) < 1e15;
    if (exact) whole += static_cast<std::int64_t>(number.number());
    real += number.number();
  }
  return exact && std::abs(real) < 1e18 ? Value::integer(whole) : Value::real(real);
}

Value map(const Value& subject, Arguments& arguments, Context& context) {
  std::vector<Value> out;
  const Value* attribute = nullptr;
  for (const auto& [name, value] : arguments.named)
    if (name == "attribute") attribute = &value;
  const Value initial = arguments.get(99, "default", Value());
  for (const auto& element : iterate(subject, context)) {
    if (attribute != nullptr) {
      Value found = attribute->as_text() != nullptr ? attribute_of(element, *attribute->as_text(), context)
                                                    : element_of(element, *attribute, context);
      out.push_back(found.is_undefined() && !initial.is_undefined() ? initial : std::move(found));
      continue;
    }
    if (arguments.positional.empty() || arguments.positional[0].as_text() == nullptr)
      context.fail("map without a filter, expected a name or attribute=");
    Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
    out.push_back(apply_filter(*arguments.positional[0].as_text(), element, rest, context));
  }
  return Value::list(std::move(out), &context);
}

/// select, reject, selectattr and rejectattr.
Value select(const Value& subject, const Arguments& arguments, bool by_attribute, bool keeps, Context& context) {
  const std::size_t at = by_attribute ? 1 : 0;
  if (by_attribute && (arguments.positional.empty() || arguments.positional[0].as_text() == nullptr))
    context.fail("selectattr or rejectattr without the name of an attribute");
  const bool named = arguments.positional.size() > at;
  if (named && arguments.positional[at].as_text() == nullptr)
    context.fail(fmt::format("{} as a test, expected its name", arguments.positional[at].kind()));
  std::vector<Value> out;
  for (const auto& element : iterate(subject, context)) {
    const Value part = by_attribute ? attribute_of(element, *arguments.positional[0].as_text(), context) : element;
    Arguments rest;
    if (named) rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(at) + 1, arguments.positional.end());
    if ((named ? apply_test(*arguments.positional[at].as_text(), part, rest, context) : part.truth()) == keeps) out.push_back(element);
  }
  return Value::list(std::move(out), &context);
}

Value rounded(const Value& subject, Arguments& arguments, Context& context) {
  const Value digits = arguments.get(0, "precision", Value::integer(0));
  if (!subject.is_number() || digits.as_integer() == nullptr) context.fail(fmt::format("round of {}, expected a number", subject.kind()));
  const double scale = std::pow(10.0, static_cast<double>(std::clamp<std::int64_t>(*digits.as_integer(), -15, 15)));
  const Value method = arguments.get(1, "method", Value::text("common"));
  const double scaled = subject.number() * scale;
  const std::string how = text_of(method, context);
  return Value::real((how == "ceil" ? std::ceil(scaled) : how == "floor" ? std::floor(scaled) : std::nearbyint(scaled)) / scale);
}

Value absolute(const Value& subject, Arguments&, Context& context) {
  if (subject.as_integer() != nullptr && *subject.as_integer() != INT64_MIN) return Value::integer(std::abs(*subject.as_integer()));
  if (subject.as_real() == nullptr) context.fail(fmt::format("abs of {}, expected a number", subject.kind()));
  return Value::real(std::abs(*subject.as_real()));
}

Value listed(const Value& subject, Arguments&, Context& context) { return Value::list(iterate(subject, context), &context); }
Value spelled(const Value& subject, Arguments&, Context& context) { return Value::text(text_of(subject, context)); }
Value counted(const Value& subject, Arguments&, Context& context) { return Value::integer(length_of(subject, context)); }

Value sorted_items(const Value& subject, Arguments& arguments, Context& context) {
  Arguments by{{}, {{"attribute", Value::text("0")}}};
  return sorted(items(subject, arguments, context), by, context);
}

const std::map<std::string_view, Filter>& filters() {
  static const std::map<std::string_view, Filter> all{
      {"trim", [](const auto& subject, auto& given, auto& context) { return called("strip", subject, given, context); }},
      {"upper", [](const auto& subject, auto& given, auto& context) { return called("upper", subject, given, context); }},
      {"lower", [](const auto& subject, auto& given, auto& context) { return called("lower", subject, given, context); }},
      {"capitalize", [](const auto& subject, auto& given, auto& context) { return called("capitalize", subject, given, context); }},
      {"title", [](const auto& subject, auto& given, auto& context) { return called("title", subject, given, context); }},
      {"replace", [](const auto& subject, auto& given, auto& context) { return called("replace", subject, given, context); }},
      {"length", counted},
      {"count", counted},
      {"tojson", json},
      {"default", default_filter},
      {"d", default_filter},
      {"join", join},
      {"items", items},
      {"dictsort", sorted_items},
      {"list", listed},
      {"string", spelled},
      {"safe", spelled},
      {"int", integer},
      {"float", real},
      {"first", [](const auto& subject, auto&, auto& context) { return end_of(subject, true, context); }},
      {"last", [](const auto& subject, auto&, auto& context) { return end_of(subject, false, context); }},
      {"reverse", reversed},
      {"sort", sorted},
      {"unique", unique},
      {"min", [](const auto& subject, auto& given, auto& context) { return extreme(subject, given, -1, context); }},
      {"max", [](const auto& subject, auto& given, auto& context) { return extreme(subject, given, 1, context); }},
      {"sum", sum},
      {"abs", absolute},
      {"round", rounded},
      {"indent", indent},
      {"map", map},
      {"select", [](const auto& subject, auto& given, auto& context) { return select(subject, given, false, true, context); }},
      {"reject", [](const auto& subject, auto& given, auto& context) { return select(subject, given, false, false, context); }},
      {"selectattr", [](const auto& subject, auto& given, auto& context) { return select(subject, given, true, true, context); }},
      {"rejectattr", [](const auto& subject, auto& given, auto& context) { return select(subject, given, true, false, context); }}};
  return all;
}

}  // namespace

Value apply_filter(const std::string& name, const Value& subject, Arguments& arguments, Context& context) {
  return called(filters(), "filter", name, context)(subject, arguments, context);
}

}  // namespace millrace::runtime::templates
