#pragma once

#include <functional>
#include <string>

namespace millrace::tools {

/// Throws Error(usage) if the path exists. An empty folder is accepted if a folder is to be created.
void want_nothing_at(const std::string& to, bool folder, const char* component);

/// Creates a folder atomically: fill(`to`.tmp) writes its content under a temporary name, which is then renamed. Nothing is left
/// behind if it fails. Errors: those of `fill`, and Error(storage).
void write_whole_folder(const std::string& to, const char* component, const std::function<void(const std::string& place)>& fill);

}  // namespace millrace::tools
