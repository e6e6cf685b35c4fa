#pragma once

#include <cstdint>
#include <string>

namespace millrace::runtime {

/// "3h12m", "4m05s", "12s".
[[nodiscard]] std::string duration_text(double seconds);
/// "182.4k", "1.3M", "950".
[[nodiscard]] std::string count_text(double count);
/// "61.2 GiB", "512.0 MiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

}  // namespace millrace::runtime
