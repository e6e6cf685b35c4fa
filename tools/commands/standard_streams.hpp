#pragma once

namespace millrace::tools {

/// First thing in main. Descriptors 0 to 2 that are closed are opened on /dev/null, so that no file of ours takes their place; what is
/// written to such a stdout fails, what is written to such a stderr is gone. SIGPIPE is ignored: a reader that went away is a write that
/// fails.
void prepare_streams();

/// Last thing in main: writes out what stdout still holds. Where that or anything before it could not be written the result of the command
/// is lost: a message on stderr, and a `code` of 0 becomes ExitCode::storage. A reader who left before a run ended (`train … | head`) has
/// seen enough of its lines; the result of a run is on the disk.
[[nodiscard]] int finish_streams(int code);

}  // namespace millrace::tools
