#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <limits>

#include "kernels/base/check.hpp"
#include "tools/commands/command_line.hpp"

namespace millrace::tools {

std::string Arguments::text(const std::string& name) const {
  for (const auto* options : {&command_->options, &common_options()})
    if (const auto option = std::ranges::find(*options, name, &Option::name); option != options->end()) return text(name, option->fallback);
  return text(name, "");
}

std::string Arguments::text(const std::string& name, const std::string& fallback) const {
  const auto found = given_.find(name);
  return found == given_.end() ? fallback : found->second.back();
}

std::vector<std::string> Arguments::texts(const std::string& name) const {
  const auto found = given_.find(name);
  return found == given_.end() ? std::vector<std::string>{} : found->second;
}

long Arguments::integer(const std::string& name, long min, long max) const {
  const auto value = text(name);
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(value.c_str(), &end, 10);
  MILLRACE_CHECK(!value.empty() && *end == 0 && errno == 0 && number >= min && number <= max, ExitCode::usage, "millrace",
                 "--{} {}, expected a whole number from {} to {}", name, value, min, max);
  return number;
}

long Arguments::integer(const std::string& name, long fallback, long min, long max) const {
  return given(name) ? integer(name, min, max) : fallback;
}

std::uint64_t Arguments::bytes(const std::string& name) const {
  const auto value = text(name);
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(value.c_str(), &end, 10);
  const std::string unit(end);
  constexpr std::array<std::string_view, 5> units{"", "KiB", "MiB", "GiB", "TiB"};
  const auto found = std::find(units.begin(), units.end(), unit);
  const auto shift = 10 * (found - units.begin());
  MILLRACE_CHECK(end != value.c_str() && found != units.end() && errno == 0 && number > 0 && number <= (1LL << (60 - shift)),
                 ExitCode::usage, "millrace",
                 "--{} {}, expected bytes such as 16000000000, or with a unit, KiB, MiB, GiB or TiB, such as 15GiB", name, value);
  return static_cast<std::uint64_t>(number) << shift;
}

namespace {

/// Not a number if the text is none.
double number_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == 0 ? number : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

double Arguments::real(const std::string& name) const {
  const double number = number_of(text(name));
  MILLRACE_CHECK(number > 0, ExitCode::usage, "millrace", "--{} {}, expected a number above 0", name, text(name));
  return number;
}

double Arguments::real_or_zero(const std::string& name) const {
  const double number = number_of(text(name));
  MILLRACE_CHECK(number >= 0, ExitCode::usage, "millrace", "--{} {}, expected 0 or a number above it", name, text(name));
  return number;
}

}  // namespace millrace::tools
