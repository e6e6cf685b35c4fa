#include "runtime/units.hpp"

#include <fmt/format.h>

#include <cmath>

namespace millrace::runtime {

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

std::string count_text(double count) {
  if (count >= 1e9) return fmt::format("{:.1f}G", count * 1e-9);
  if (count >= 1e6) return fmt::format("{:.1f}M", count * 1e-6);
  if (count >= 1e4) return fmt::format("{:.1f}k", count * 1e-3);
  return fmt::format("{:.0f}", count);
}

std::string bytes_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 0x1p30) return fmt::format("{:.1f} GiB", value * 0x1p-30);
  return fmt::format("{:.1f} MiB", value * 0x1p-20);
}

}  // namespace millrace::runtime
