#pragma once

namespace millrace::tools {

/// To be called first in main. Opens closed descriptors 0 to 2 on /dev/null, so that no file of ours gets their number; writing to
/// such a stdout fails, and text written to such a stderr is discarded. Ignores SIGPIPE and SIGXFSZ: a write to a pipe without a
/// reader, or beyond `ulimit -f`, fails instead.
void prepare_streams();

/// To be called last in main: flushes stdout and returns the exit code. If this or an earlier write failed, the result of the
/// command is lost: a message is printed on stderr, and a `code` of 0 becomes ExitCode::storage. A pipe whose reader ended before a
/// training run did (`train … | head`) is no error, since the result of a run is on the disk.
[[nodiscard]] int finish_streams(int code);

}  // namespace millrace::tools
