"""What this machine offers, what is missing with its cure, where things lie, and how to share.

The same as `workbench doctor`. Costs a second for torch, and a walk through the caches when asked.
"""

import streamlit as st

from workbench.app import cache, text, uploads

MOVING = """
| What | Moved by | By itself |
|---|---|---|
| runs | `WORKBENCH_RUNS` | the folder `runs` where the app was started |
| Workbench's cache: what was fetched | `WORKBENCH_HOME` | `~/.cache/workbench` |
| models of the Hugging Face hub | `HF_HOME` | `~/.cache/huggingface` |

Set a variable before you start the app, and move the folder's contents yourself:
"""
SHARING = """
The app answers on **localhost** only: nobody on the network can reach it, and there is no password.
Whoever can open it can start jobs on this machine, read every file that you can read, by typing its
path as a model or a corpus, and remove runs. So share it only with people you would let sit at
your desk.

**For one other person, the safest way** is a tunnel; nothing in the app changes:
"""
LOGIN = """
**For a group**, let Streamlit ask for a login at your organisation (OIDC), and serve the app behind
a proxy that speaks HTTPS; without HTTPS the login can be read on the way.

1. Register the app with your identity provider; it gives you a client id and a secret.
2. Install what the login needs: `pip install "streamlit[auth]"`.
3. Write `.streamlit/secrets.toml` in the folder where you start the app, readable by you alone:
"""
SECRETS = """[auth]
redirect_uri = "https://workbench.example.org/oauth2callback"
cookie_secret = "a long random text, known to nobody"
client_id = "from your provider"
client_secret = "from your provider"
server_metadata_url = "https://accounts.example.org/.well-known/openid-configuration"
"""
GATE = """
4. Ask for the login before any page is drawn: put these lines into `streamlit_app.py`, after
   `st.set_page_config`:
"""
CODE = """if not st.user.is_logged_in:
    st.login()
    st.stop()
"""
SERVE = """
5. Start it so that your proxy reaches it, with the name it is reached by. An address other than
   localhost opens the door to everyone who can reach the machine; the login is then the only lock.
   Models and corpora are then read from the folders of `--allow`, uploads and runs only.
"""


st.title("Settings and doctor", anchor=False)
if st.button("Look again", icon=":material/refresh:", help="After you have installed something."):
    cache.machine.clear()
here = cache.machine()

st.header("What is missing", anchor=False)
if not here.missing:
    st.success("Nothing is missing.", icon=":material/check_circle:")
for missing in here.missing:
    st.text(f"{missing.what}: {missing.why}.")
    st.code(missing.command, language="bash", wrap_lines=True)

st.header("This machine", anchor=False)
device = here.device
text.facts(
    [
        ("models run on", "; ".join(device.names) or f"{device.kind.upper()}, the processor"),
        ("processor", f"{device.cores} cores, {device.threads} used by torch"),
        ("Workbench", here.workbench),
        ("Python", here.python),
        ("platform", here.platform),
        ("spaCy pipelines", ", ".join(here.pipelines) or "none"),
        ("browser for images", here.browser or "none"),
    ]
)
with st.expander("Packages"):
    text.facts(
        (p.name, f"{p.installed or 'none'} (wanted: {p.wanted or 'any'})") for p in here.packages
    )

st.header("Where things lie", anchor=False)
uploads.folders(here.folders, here.free_bytes)
with st.expander("How to move them"):
    st.markdown(MOVING)
    st.code("WORKBENCH_RUNS=/data/runs WORKBENCH_HOME=/data/cache workbench app", language="bash")

st.header("Looks", anchor=False)
st.markdown(
    "The app is light or dark as your browser is, and most browsers follow the system. Figures "
    "follow the app; in reports they follow whoever reads them."
)

st.header("Sharing", anchor=False)
st.markdown(SHARING)
st.code("ssh -L 8501:localhost:8501 you@this-machine", language="bash")
with st.expander("With a login, for a group"):
    st.markdown(LOGIN)
    st.code(SECRETS, language="toml")
    st.markdown(GATE)
    st.code(CODE, language="python")
    st.markdown(SERVE)
    st.code(
        "workbench app --headless --address 0.0.0.0 --host-name workbench.example.org "
        "--allow /data/corpora",
        language="bash",
    )
