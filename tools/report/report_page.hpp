#pragma once

#include <string>
#include <string_view>

namespace millrace::tools {

/// One page of HTML that shows a profile (profile.json, format "millrace.profile.1") and needs nothing else: style, scripts and the profile
/// itself are in it. Whatever the names in the profile are, they stay text. Error(data) where `profile_json` is not JSON. Any thread.
[[nodiscard]] std::string report_page(std::string_view profile_json);

}  // namespace millrace::tools
