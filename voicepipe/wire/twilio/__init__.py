"""The dialect of Twilio's Media Streams: a phone call. For people it is described in `docs/twilio.md`."""
