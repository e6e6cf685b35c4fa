#include "runtime/schedule/table_header.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "runtime/schedule/component.hpp"
#include "runtime/schedule/hash.hpp"

namespace millrace::runtime {
namespace {

std::string_view take_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find_first_of(" \t,"));
  line.remove_prefix(word.size());
  return word;
}

template <class Number>
Number read_number(std::string_view word, int base, const std::string& place, std::string_view key) {
  Number number = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number, base);
  MILLRACE_CHECK(error == std::errc{} && stop == word.data() + word.size(), ExitCode::config, schedule_component,
                 "{}: {} \"{}\", expected a {} number", place, key, word, base == 16 ? "hexadecimal" : "decimal");
  return number;
}

/// An unknown '#' line is a comment, unless it is a misspelt header line.
void check_remark(std::string_view key, const std::string& place) {
  constexpr std::string_view long_keys[] = {"#millrace-schedule", "#placement", "#hash"};
  for (const auto known : long_keys) {
    const bool near = key.size() >= 4 && edit_distance(key, known) <= 2;
    MILLRACE_CHECK(!near, ExitCode::config, schedule_component, "{}: {}, did you mean {}? A comment has a space after the #", place, key,
                   known);
  }
  for (const auto known : {"#ranks", "#microbatches", "#chunks"})
    MILLRACE_CHECK(key != known, ExitCode::config, schedule_component, "{}: {}, expected #{}", place, key,
                   known[1] == 'r'   ? "P"
                   : known[1] == 'm' ? "M"
                                     : "V");
}

int chunks_of(const Placement& placement) { return placement.chunks() / placement.directions(); }

}  // namespace

void read_header_line(std::string_view line, const std::string& place, TableFacts& facts) {
  const std::string_view key = take_word(line);
  const std::string_view word = take_word(line);
  const auto number = [&] { return read_number<int>(word, 10, place, key); };
  if (key == "#millrace-schedule") {
    MILLRACE_CHECK(number() == 1, ExitCode::config, schedule_component, "{}: a table of version {}, expected version 1", place, word);
  } else if (key == "#P") {
    facts.ranks = number();
  } else if (key == "#V") {
    facts.chunks = number();
  } else if (key == "#M") {
    facts.microbatches = number();
  } else if (key == "#hash") {
    facts.hash = read_number<std::uint64_t>(word, 16, place, key);
  } else if (key == "#placement") {
    std::string name(word);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    constexpr std::string_view known[] = {"single", "loop", "v", "mirror", "by-hand"};
    MILLRACE_CHECK(std::find(std::begin(known), std::end(known), name) != std::end(known), ExitCode::config, schedule_component,
                   "{}: #placement \"{}\", expected one of {}", place, word, fmt::join(known, ", "));
    facts.placement = std::move(name);
  } else {
    return check_remark(key, place);
  }
  const std::string_view rest = take_word(line);
  MILLRACE_CHECK(rest.empty() || rest.front() == '#', ExitCode::config, schedule_component, "{}: \"{}\" after {} {}, expected one word",
                 place, rest, key, word);
}

std::optional<Placement> placement_of(const TableFacts& facts, int ranks, int stages, const std::string& name) {
  if (!facts.placement || *facts.placement == "by-hand") return std::nullopt;
  const int each = *facts.placement == "single" ? 1 : *facts.placement == "loop" ? std::max(1, stages / ranks) : 2;
  MILLRACE_CHECK(stages == ranks * each, ExitCode::config, schedule_component,
                 "{}: #placement {} of {} stages on {} ranks, expected {} stages", name, *facts.placement, stages, ranks, ranks * each);
  if (*facts.placement == "single") return Placement::single(ranks);
  if (*facts.placement == "loop") return Placement::loop(ranks, each);
  return *facts.placement == "v" ? Placement::v_shape(ranks) : Placement::mirror(ranks);
}

void check_header(const TableFacts& facts, const Schedule& schedule) {
  const auto check = [&](const char* key, const std::optional<int>& said, int found) {
    MILLRACE_CHECK(!said || *said == found, ExitCode::config, schedule_component, "{}: #{} says {}, the table has {}", schedule.name, key,
                   *said, found);
  };
  check("P", facts.ranks, schedule.placement.ranks());
  check("V", facts.chunks, chunks_of(schedule.placement));
  check("M", facts.microbatches, schedule.microbatches);
  const std::uint64_t hash = content_hash(schedule);
  MILLRACE_CHECK(
      !facts.hash || *facts.hash == hash, ExitCode::config, schedule_component,
      "{}: #hash says {:016x}, the table has {:016x}; the table was changed after it was written; remove the line if that was intended",
      schedule.name, *facts.hash, hash);
}

std::string print_header(const Schedule& schedule) {
  const Placement& placement = schedule.placement;
  return fmt::format("#millrace-schedule 1\n#P {}\n#V {}\n#M {}\n#placement {}\n#hash {:016x}\n", placement.ranks(), chunks_of(placement),
                     schedule.microbatches, placement.name() == "v" ? "V" : placement.name(), content_hash(schedule));
}

}  // namespace millrace::runtime
