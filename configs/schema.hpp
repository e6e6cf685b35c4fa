#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "configs/run_config.hpp"
#include "configs/value.hpp"

namespace millrace::configs {

enum class Kind : std::uint8_t { boolean, integer, number, text, list, numbers };

/// May a resumed run have another value? identity: no, it would be another run. layout: yes, the numbers do not depend on it.
enum class Mark : std::uint8_t { identity, layout };

/// A Key's least for numbers that must be above 0.
inline constexpr double above_zero = 1e-300;

/// All that is known of a key: it is parsed, checked, shown, documented and compared from here. Its default is the initial value of the
/// member of RunConfig that it is bound to.
struct Key {
  std::string name;  // "train.steps"
  Kind kind = Kind::text;
  Mark mark = Mark::layout;
  double least = 0;                  // integer, number, and each entry of numbers
  double most = 0;                   // integer, number, and each entry of numbers
  std::vector<std::string> choices;  // text, and each entry of a list; empty: any
  std::string unit;                  // "steps", "tokens", …; empty: none
  std::string doc;                   // one sentence or two
  std::function<Value(const RunConfig&)> fetch;
  std::function<void(RunConfig&, const Value&)> store;  // the alternative of `kind`, within range
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

/// Does a value of the right kind lie in the key's range or among its choices?
[[nodiscard]] bool in_range(const Key& key, const Value& value);

/// "MILLRACE_TRAIN_STEPS"
[[nodiscard]] std::string environment_name(const Key& key);

/// The policies that rematerialize.policy knows by name; other entries are labels of values.
[[nodiscard]] const std::vector<std::string>& rematerialization_policies();

}  // namespace millrace::configs
