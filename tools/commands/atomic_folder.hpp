#pragma once

#include <functional>
#include <string>

namespace millrace::tools {

/// Refuses a path that has something at it: Error(usage). An empty folder will do where a folder is to be made.
void want_nothing_at(const std::string& to, bool folder, const char* who);

/// fill(place) makes the folder under another name, `to`.tmp, and it is renamed when all is there; nothing is left where it fails.
/// Errors: those of `fill`, and Error(storage).
void write_whole_folder(const std::string& to, const char* who, const std::function<void(const std::string& place)>& fill);

}  // namespace millrace::tools
