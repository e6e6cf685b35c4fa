#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace millrace {

/// The plural of an English noun: steps, copies, microbatches, processes. For the nouns of messages, all of which are regular.
[[nodiscard]] inline std::string plural(std::string_view noun) {
  const auto ends = [noun](std::string_view end) { return noun.ends_with(end); };
  if (ends("s") || ends("x") || ends("ch") || ends("sh")) return fmt::format("{}es", noun);
  const bool vowel_before = noun.size() > 1 && std::string_view("aeiou").find(noun[noun.size() - 2]) != std::string_view::npos;
  if (ends("y") && !vowel_before) return fmt::format("{}ies", noun.substr(0, noun.size() - 1));
  return fmt::format("{}s", noun);
}

/// The noun alone, in the number that the count requires.
[[nodiscard]] std::string noun_for(std::integral auto count, std::string_view noun) {
  return count == 1 ? std::string(noun) : plural(noun);
}

/// "1 step", "2 steps", "0 steps".
[[nodiscard]] std::string counted(std::integral auto count, std::string_view noun) {
  return fmt::format("{} {}", count, noun_for(count, noun));
}

/// "13207024435 bytes (12.30 GiB)", "5242880 bytes (5.00 MiB)", "1 byte": the exact number, and what a reader can grasp.
[[nodiscard]] std::string byte_count(std::integral auto bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 0x1p30) return fmt::format("{} bytes ({:.2f} GiB)", bytes, value * 0x1p-30);
  if (value >= 0x1p20) return fmt::format("{} bytes ({:.2f} MiB)", bytes, value * 0x1p-20);
  return counted(bytes, "byte");
}

}  // namespace millrace
