#pragma once

namespace millrace::actors {

/// Installs signal handlers: SIGTERM, SIGINT, SIGHUP and SIGUSR1 request a save and an orderly end at the next step boundary,
/// SIGUSR2 a profile. A second SIGINT ends the process at once, as by default. SIGINT and SIGHUP stay ignored if they were
/// (nohup, a script's background jobs). Called first in main: signals before train() are remembered until then.
void note_signals();

/// Whether one of them has requested the end.
[[nodiscard]] bool stop_asked();
/// Whether a profile was requested; true once per request.
[[nodiscard]] bool profile_asked();

}  // namespace millrace::actors
