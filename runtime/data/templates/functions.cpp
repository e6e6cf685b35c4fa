#include <algorithm>
#include <array>
#include <ctime>

#include "kernels/base/check.hpp"
#include "runtime/data/templates/builtins.hpp"

namespace millrace::runtime::templates {
namespace {

Value range(Context& context, Arguments& arguments) {
  std::int64_t numbers[3] = {0, 0, 1};
  const std::size_t count = arguments.positional.size();
  if (count < 1 || count > 3) context.fail(fmt::format("range of {} arguments, expected 1 to 3", count));
  for (std::size_t i = 0; i < count; ++i) {
    const auto* number = arguments.positional[i].as_integer();
    if (number == nullptr || std::abs(*number) > (std::int64_t{1} << 40))
      context.fail(fmt::format("range of {}, expected integers", arguments.positional[i].kind()));
    numbers[count == 1 ? 1 : i] = *number;
  }
  if (numbers[2] == 0) context.fail("range with the step 0");
  std::vector<Value> out;
  for (std::int64_t at = numbers[0]; numbers[2] > 0 ? at < numbers[1] : at > numbers[1]; at += numbers[2]) {
    context.spend(64);
    out.push_back(Value::integer(at));
  }
  return Value::list(std::move(out), &context);
}

/// The mapping that the first argument is, with the named arguments.
Entries entries_of(Arguments& arguments, Context& context) {
  Entries entries;
  if (!arguments.positional.empty()) {
    const auto* mapping = arguments.positional[0].as_mapping();
    if (mapping == nullptr) context.fail(fmt::format("a mapping made of {}, expected a mapping", arguments.positional[0].kind()));
    entries = mapping->entries;
    context.spend(entries.size());
  }
  for (auto& [name, value] : arguments.named) {
    const auto same = std::find_if(entries.begin(), entries.end(), [&key = name](const auto& entry) { return entry.first == key; });
    if (same == entries.end()) {
      entries.emplace_back(name, value);
    } else {
      same->second = value;
    }
  }
  return entries;
}

Value today(Context& context, Arguments& arguments) {
  const std::string format = text_of(arguments.get(0, "format", Value::text("%d %b %Y")), context);
  if (format.size() > 200) context.fail("strftime_now of a long format, expected one of a date");
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 4096> text{};
  return Value::text(std::string(text.data(), std::strftime(text.data(), text.size(), format.c_str(), &parts)));
}

}  // namespace

Entries functions() {
  const Value unbound = Value::none();
  return {{"range", Value::function("range", range, unbound)},
          {"dict",
           Value::function(
               "dict", [](Context& context, Arguments& given) { return Value::mapping(entries_of(given, context), &context); }, unbound)},
          {"namespace",
           Value::function(
               "namespace", [](Context& context, Arguments& given) { return Value::namespace_of(entries_of(given, context), context); },
               unbound)},
          {"raise_exception", Value::function(
                                  "raise_exception",
                                  [](Context& context, Arguments& given) -> Value {
                                    context.fail("the template refuses: " + text_of(given.get(0, "message", Value::text("")), context));
                                  },
                                  unbound)},
          {"strftime_now", Value::function("strftime_now", today, unbound)}};
}

Value element_of(const Value& subject, const Value& key, Context& context) {
  if (subject.is_undefined()) context.fail(fmt::format("{} is undefined, and so has no element", subject.undefined_name()));
  if (const auto* mapping = subject.as_mapping()) {
    const Value* found = key.as_text() != nullptr ? find(mapping->entries, *key.as_text(), context) : nullptr;
    return found != nullptr ? *found : Value::undefined(text_of(key, context));
  }
  if (subject.as_namespace() != nullptr && key.as_text() != nullptr) {
    const Value* found = find(subject.as_namespace()->entries, *key.as_text(), context);
    return found != nullptr ? *found : Value::undefined(*key.as_text());
  }
  const auto* index = key.as_integer();
  if (index == nullptr || (subject.as_list() == nullptr && subject.as_text() == nullptr)) return Value::undefined(text_of(key, context));
  const auto from_either_end = [&](std::size_t size) { return *index < 0 ? *index + static_cast<std::int64_t>(size) : *index; };
  const auto pick = [&](const auto& elements) -> std::optional<std::size_t> {
    const auto at = from_either_end(elements.size());
    return at >= 0 && at < static_cast<std::int64_t>(elements.size()) ? std::optional(static_cast<std::size_t>(at)) : std::nullopt;
  };
  if (const auto* list = subject.as_list()) {
    const auto at = pick(list->elements);
    return at ? list->elements[*at] : Value::undefined(fmt::format("element {} of {}", *index, list->elements.size()));
  }
  context.spend(4 * subject.as_text()->size());
  const auto characters = characters_of(*subject.as_text());
  const auto at = pick(characters);
  return at ? Value::text(std::string(characters[*at])) : Value::undefined(text_of(key, context));
}

Value slice_of(const Value& subject, const Value& first, const Value& last, const Value& step, Context& context) {
  if (subject.as_list() == nullptr && subject.as_text() == nullptr) {
    const std::string name =
        subject.is_undefined() ? subject.undefined_name() + " is undefined" : std::string("a slice of ") + subject.kind();
    context.fail(name + ", expected a list or a string");
  }
  const auto elements = iterate(subject, context);
  const auto size = static_cast<std::int64_t>(elements.size());
  const auto number = [&](const Value& value, std::int64_t fallback) {
    if (value.is_none()) return fallback;
    if (value.as_integer() == nullptr) context.fail(fmt::format("a slice by {}, expected integers", value.kind()));
    return *value.as_integer();
  };
  const std::int64_t by = std::clamp<std::int64_t>(number(step, 1), -(std::int64_t{1} << 40), std::int64_t{1} << 40);
  if (by == 0) context.fail("a slice with the step 0");
  // Python's rule: from the end if negative, then between the bounds that the direction allows.
  const std::int64_t low = by > 0 ? 0 : -1, high = by > 0 ? size : size - 1;
  const auto bound = [&](const Value& value, std::int64_t fallback) {
    if (value.is_none()) return fallback;
    const std::int64_t given = number(value, 0);
    return std::clamp<std::int64_t>(given < 0 ? std::max<std::int64_t>(given, -size - 1) + size : given, low, high);
  };
  const std::int64_t begin = bound(first, by > 0 ? 0 : size - 1), end = bound(last, by > 0 ? size : -1);
  std::vector<Value> out;
  for (std::int64_t at = begin; by > 0 ? at < end : at > end; at += by) out.push_back(elements[static_cast<std::size_t>(at)]);
  if (subject.as_list() != nullptr) return Value::list(std::move(out), &context);
  std::string text;
  for (const auto& character : out) text += *character.as_text();
  return Value::text(std::move(text));
}

}  // namespace millrace::runtime::templates
