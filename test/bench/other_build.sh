# shellcheck shell=bash disable=SC2034
# The opening of benchmarks whose one argument is the folder of another build. To be sourced
# from anywhere: reads the argument, goes to the top of the checkout, and does what
# two_builds.sh does.

if [ $# != 1 ] || [ ! -d "$1" ]; then
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
other=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
. test/setup.sh

setup_packages bench
. test/bench/two_builds.sh
