#!/bin/sh
# libm.sh FOLDER: headers that make bits call core/elementary.hpp, not the C library, whose exp, say, depends on the processor
# in its last bit. Let pass are another machine's errors, estimates, pages for a reader and answers with a tolerance.
no_bits='^(emulator/|planning/|telemetry/report/|verify/expression\.hpp)'
set -eu
cd "$1"
names='acosh?|asinh?|atan[2h]?|cbrt|cosh?|erfc?|exp(10|2|m1)?|hypot|lgamma|log(10|1p|2)?|pow|sin(cos|h)?|tanh?|tgamma'
calls="\\<(std::|__builtin_)($names)[fl]?\\>|(^|[^A-Za-z_0-9:.])(exp(m1|2)?|log(1p|2)?|pow|sin|cos|tanh)f\\("
code() { sed 's,"[^"]*",,g; s,//.*,,'; }
for call in 'y = std::expf(x)' 'using std::log1p;' '__builtin_pow(x, 2)' '-tanhf(x)'; do
  echo "$call" | code | grep -qE "$calls" || { echo "libm: does not see $call"; exit 1; }
done
for other in '// std::exp(x)' '"std::exp"' 'std::sqrt(x)' 'elementary::expf(x)' 'std::exponential' 'a.log(2)'; do
  ! echo "$other" | code | grep -E "$calls" || { echo 'libm: that is no call of the C library'; exit 1; }
done
! grep -rnE "$calls" . | sed 's,^\./,,' | grep -vE "$no_bits" | code | grep -E "$calls"
