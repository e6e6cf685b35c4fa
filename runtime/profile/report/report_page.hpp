#pragma once

#include <string>
#include <string_view>

namespace millrace::runtime {

/// One self-contained HTML page that shows a profile (profile.json, format "millrace.profile.1"): style, scripts and the profile
/// itself are embedded. Names in the profile are always shown as text, never interpreted. Error(data) if `profile_json` is not
/// JSON. Any thread.
[[nodiscard]] std::string report_page(std::string_view profile_json);

}  // namespace millrace::runtime
