#pragma once

#include <nlohmann/json.hpp>

#include <string_view>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

/// Parses a whole JSON text that may be hostile: duplicate keys, nesting deeper than `depth`, NUL bytes and invalid UTF-8 are
/// errors with exit code `code` that name `path`. To be included by source files only, so that no public header exposes the
/// library's types.
[[nodiscard]] nlohmann::json parse_strict_json(std::string_view text, int depth, ExitCode code, std::string_view path);

/// Returns object[key] if it has the expected type; otherwise throws an error with `code` that names path and key.
[[nodiscard]] std::uint64_t json_count(const nlohmann::json& object, const char* key, ExitCode code, std::string_view path);
[[nodiscard]] std::string json_text(const nlohmann::json& object, const char* key, ExitCode code, std::string_view path);
[[nodiscard]] const nlohmann::json& json_array(const nlohmann::json& object, const char* key, ExitCode code, std::string_view path);
[[nodiscard]] const nlohmann::json& json_object(const nlohmann::json& object, const char* key, ExitCode code, std::string_view path);

}  // namespace millrace::runtime
