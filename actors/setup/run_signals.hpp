#pragma once

namespace millrace::actors {

/// SIGTERM, SIGINT, SIGHUP and SIGUSR1 ask for a save and an orderly end at the next step boundary, SIGUSR2 for a profile. A second SIGINT
/// ends the process at once, as it would have without this. SIGINT and SIGHUP stay ignored where they were (nohup, a script's background
/// jobs). First thing in main: what comes before train() is kept until then.
void note_signals();

/// Whether one of them has asked for the end.
[[nodiscard]] bool stop_asked();
/// Whether a profile was asked for; once for each time.
[[nodiscard]] bool profile_asked();

}  // namespace millrace::actors
