#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "configs/run_config.hpp"
#include "configs/value.hpp"

namespace millrace::configs {

enum class Kind : std::uint8_t { boolean, integer, number, text, list, numbers, integers };

/// Whether a resumed run may have another value. identity: no, since it would be another run; layout: yes, since numbers do not
/// depend on it.
enum class Mark : std::uint8_t { identity, layout };

/// The value of Key::least for numbers that must be above 0.
inline constexpr double above_zero = 1e-300;

/// The description of a key, from which it is parsed, checked, shown, documented and compared. Its default is the initial value of
/// the member of RunConfig to which it is bound.
struct Key {
  std::string name;  // "train.steps"
  Kind kind = Kind::text;
  Mark mark = Mark::layout;
  double least = 0;                  // integer, number, and each entry of numbers and integers
  double most = 0;                   // integer, number, and each entry of numbers and integers
  std::vector<std::string> choices;  // text, and each entry of a list; empty: any
  std::string unit;                  // "steps", "tokens", …; empty: none
  std::string doc;                   // one or two sentences
  std::function<Value(const RunConfig&)> fetch;
  std::function<void(RunConfig&, const Value&)> store;  // the value must have the alternative of `kind` and be in range
};

/// Every key, section by section, in the order in which they are shown.
[[nodiscard]] const std::vector<Key>& schema();

[[nodiscard]] const std::vector<std::string>& key_names();

/// Null if there is no such key.
[[nodiscard]] const Key* find_key(std::string_view name);

/// "train.steps" -> "train"; "device" -> "".
[[nodiscard]] std::string_view section_of(std::string_view name);

/// The values that the key accepts, for messages and help: "an integer from 1 to 1000000000 (steps)".
[[nodiscard]] std::string expected_text(const Key& key);

/// Whether a value of the key's kind is in the key's range or among its choices.
[[nodiscard]] bool in_range(const Key& key, const Value& value);

/// "MILLRACE_TRAIN_STEPS"
[[nodiscard]] std::string environment_name(const Key& key);

/// The named policies of rematerialize.policy; other entries are labels of values.
[[nodiscard]] const std::vector<std::string>& rematerialization_policies();

}  // namespace millrace::configs
