#pragma once

#include <string>
#include <string_view>

namespace millrace::configs {

/// What TOML++ says about a file that is not TOML ("Error while parsing value: could not determine value type"), in this project's words:
/// what was found and what is expected. `line` is the line of the file that it is about; it may be empty.
[[nodiscard]] std::string toml_words(std::string_view description, std::string_view line);

}  // namespace millrace::configs
